/* Searches in the page itself: a browser gives a page that is read from the disk neither workers nor JSON files. */
(() => {
  const query = document.getElementById("mkdocs-search-query");
  const results = document.getElementById("mkdocs-search-results");
  const between = /[^\p{L}\p{N}_]+/u;
  if (!query || !results) return;

  const load = (name, then) => {
    const script = document.createElement("script");
    script.src = `${base_url}/search/${name}`;
    script.onload = then;
    document.head.append(script);
  };

  const element = (name, text, ...children) => {
    const made = document.createElement(name);
    made.append(text, ...children);
    return made;
  };

  const start = () => {
    lunr.tokenizer.separator = between; // words of an option such as --data.label_separator are found too
    const pages = new Map(searchDocuments.map((page) => [page.location, page]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 10 });
      this.field("text");
      searchDocuments.forEach((page) => this.add(page));
    });

    const show = () => {
      const words = query.value.split(between).filter((word) => word);
      const matches = words.length ? index.search(words.join(" ")) : [];
      const similar = () => index.search(words.map((word) => `${word}* ${word}~1`).join(" "));
      const found = words.length && !matches.length ? similar() : matches;
      results.replaceChildren(...found.slice(0, 50).map((match) => pages.get(match.ref)).map((page) => {
        const link = element("a", page.title);
        link.href = `${base_url}/${page.location}`;
        return element("article", element("h3", link), element("p", page.text.slice(0, 200)));
      }));
      if (words.length && !found.length) results.append(element("p", "No results found"));
    };

    query.addEventListener("input", show);
    query.value = new URLSearchParams(location.search).get("q") || query.value;
    show();
  };

  load("lunr.js", () => load("documents.js", start));
})();
