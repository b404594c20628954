"""Opens a page in headless Chromium: script errors, overflow at any width, light and dark."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

WIDTHS = (390, 800, 1300)
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
# A window cannot be as narrow as a phone; a frame can.
FRAME = """<!doctype html><body style="margin:0"><pre id="found"></pre>
<iframe id="page" src="{address}" style="border:0;width:{width}px;height:{height}px"></iframe>
<script>
const page = document.getElementById("page");
const look = () => {{
  const inner = page.contentDocument, root = inner.documentElement;
  const box = (node) => node.getBoundingClientRect(), all = (what) => [...inner.querySelectorAll(what)];
  const outside = (node, left, right) => box(node).left < left - 1 || box(node).right > right + 1;
  const wide = all("body *").filter((node) => !node.closest(".wide, svg") && outside(node, 0, root.clientWidth));
  const frame = (text) => box(text.closest("svg"));
  const cut = all("svg text").filter((text) => outside(text, frame(text).left, frame(text).right));
  document.getElementById("found").textContent = JSON.stringify({{
    overflow: root.scrollWidth - root.clientWidth,
    clipped: [...wide, ...cut].map((node) => node.outerHTML.slice(0, 99)),
    broken: all("td code").filter((node) => node.getClientRects().length > 1).map((node) => node.textContent)
      .filter((text) => !text.includes(" ")),
    ink: getComputedStyle(inner.body).color, ground: getComputedStyle(inner.body).backgroundColor,
  }});
}};
page.onload = () => setTimeout(look, 100);  // the theme of the docs wraps its tables after loading
</script>"""


@dataclass(frozen=True)
class Seen:
    overflow: float
    clipped: list[str]
    broken: list[str]
    ink: str
    ground: str
    errors: list[str]


def open_page(page: Path, width: int, dark: bool, screenshot: Path | None = None, height: int = 2400) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(FRAME.format(address=page.resolve().as_uri(), width=width, height=height))
        flags = [
            "--allow-file-access-from-files",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--window-size={max(width, 600)},{height}",
        ]
        drawn = _chromium(Path(folder), frame, *flags, "--dump-dom", "--virtual-time-budget=5000")
        if screenshot is not None:
            _chromium(Path(folder), frame, *flags, "--hide-scrollbars", f"--screenshot={screenshot}")
    found = re.search(r'<pre id="found">(.+?)</pre>', drawn.stdout, re.DOTALL)
    assert found is not None, drawn.stderr[-2000:]
    errors = [line for line in drawn.stderr.splitlines() if "CONSOLE" in line]
    return Seen(errors=errors, **json.loads(html.unescape(found[1])))


def dump(page: Path, query: str = "") -> str:
    """The document after its scripts have run, with a query such as "?q=word" in its address."""
    with tempfile.TemporaryDirectory() as folder:
        return _chromium(Path(folder), page, "--dump-dom", "--virtual-time-budget=20000", query=query).stdout


def _chromium(profile: Path, page: Path, *flags: str, query: str = "") -> subprocess.CompletedProcess[str]:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
    command += [
        "--enable-logging=stderr",
        f"--user-data-dir={profile / 'profile'}",
        *flags,
        page.resolve().as_uri() + query,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def check_page(page: Path, width: int, dark: bool) -> None:
    seen = open_page(page, width, dark)
    assert not seen.errors
    assert seen.overflow <= 0
    assert not seen.clipped
    assert is_dark(seen) == dark


def is_dark(seen: Seen) -> bool:
    """Whether the text is brighter than its background."""
    ink, ground = (sum(map(float, re.findall(r"[\d.]+", colour)[:3])) for colour in (seen.ink, seen.ground))
    return ink > ground
