"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
element("secret").hidden = !data.token;
element("explain").hidden = !data.explains;

async function send(path, body) {
  element("status").textContent = "…";
  const headers = {"Content-Type": "application/json"};
  if (data.token) headers.Authorization = `Bearer ${element("token").value}`;
  const start = performance.now();
  try {
    const response = await fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
    if (!response.ok) throw new Error((await response.json()).error);
    element("status").textContent = `${Math.round(performance.now() - start)} ms`;
    return response;
  } catch (error) {
    element("status").textContent = error.message;
    return null;
  }
}

function cells(value) {
  if (Array.isArray(value)) return value.map(cells).join("\n");
  if (value !== null && typeof value === "object") {
    return Object.entries(value).map(([name, one]) => `${name} ${cells(one)}`).join("\n");
  }
  return typeof value === "number" ? String(Number(value.toFixed(4))) : String(value);
}

function show(predictions) {
  const rows = predictions.map((found) => {
    const row = document.createElement("tr");
    for (const value of Object.values(found)) {
      const cell = document.createElement("td");
      cell.textContent = cells(value);
      row.append(cell);
    }
    return row;
  });
  const names = document.createElement("tr");
  for (const name of Object.keys(predictions[0])) {
    const cell = document.createElement("th");
    cell.textContent = name;
    names.append(cell);
  }
  element("answers").replaceChildren(names, ...rows);
}

element("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const texts = element("texts").value.split("\n").filter((line) => line.trim());
  const response = texts.length ? await send(data.path, {texts}) : null;
  if (response) show((await response.json()).predictions);
});

element("explain").addEventListener("click", async () => {
  const text = element("texts").value.split("\n").find((line) => line.trim());
  const response = text ? await send("/explain", {text}) : null;
  if (!response) return;
  element("page").hidden = false;
  element("page").srcdoc = await response.text();
});
