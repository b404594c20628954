"""`transevolve serve` with a real client on loopback, and its batches."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from browser import WIDTHS, check_page, dump, needs_chromium
from test_explain import as_run
from training_support import PATIENCE, process
from transevolve import TransEvolveConfig, TransEvolveForCausalLM
from transevolve.cli import main
from transevolve.core.errors import UserError
from transevolve.inference import load
from transevolve.runs.storage import write_manifest
from transevolve.serving.app import create_app
from transevolve.serving.batcher import Batcher, Busy
from transevolve.serving.limits import Limits

RUNS = Path(__file__).parent / "version_one"
TEXTS = {"texts": ["a great film", "an awful one"]}
JSON = {"content-type": "application/json"}


def started(*options: str) -> tuple[subprocess.Popen, str]:
    running = process(["serve", str(RUNS / "classifier"), "--port", "0", *options])
    assert running.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", running.stdout.readline())
    assert found is not None, running.communicate()
    return running, found[0]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen, str]]:
    running, address = started("--timeout", "5", "--max_characters", "1000", "--max_texts", "50")
    yield running, address
    running.send_signal(signal.SIGTERM)
    _, reported = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, reported


@pytest.fixture
def client(server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server[1], timeout=PATIENCE) as client:
        yield client
        assert client.post("/predict", json=TEXTS).status_code == 200, "the next request is served"


def error_of(response: httpx.Response) -> str:
    assert list(response.json()) == ["error"]
    return response.json()["error"]


def test_answers_are_those_of_predict(client, capsys):
    assert main(["predict", str(RUNS / "classifier"), "--json", *TEXTS["texts"]]) == 0
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = client.post("/predict", json=TEXTS).json()["predictions"]
    assert [row["label"] for row in found] == [row["label"] for row in expected]
    assert [row["probability"] for row in found] == pytest.approx([row["probability"] for row in expected], abs=1e-6)


WRONG = {
    "malformed JSON": (b'{"texts": ["a', 422, "JSON"),
    "no JSON": (b"\xff\xfe", (400, 422), ""),
    "nesting": (b"[" * 100_000, (400, 422), ""),
    "a number": (b'{"texts": [1]}', 422, "texts.0: Input should be a valid string"),
    "a text": (b'{"texts": "a"}', 422, "texts: Input should be a valid list"),
    "nothing": (b'{"texts": []}', 422, "texts: "),
    "another key": (b'{"texts": ["a"], "beam": 4}', 422, "beam: "),
    "a long key": (json.dumps({"texts": ["a"], "k" * 9999: 1}).encode(), 422, f"{'k' * 80}...: Extra inputs"),
    "half a character": (b'{"texts": ["\\ud800"]}', 422, "texts.0: "),
    "a long text": (json.dumps({"texts": ["a" * 1001]}).encode(), 422, "texts.0: String should have at most 1000"),
    "many texts": (json.dumps({"texts": ["a"] * 51}).encode(), 422, "texts: List should have at most 50"),
    "10 MB": (b"x" * 10_000_000, 413, "more than 1,000,000 bytes"),
}


@pytest.mark.parametrize(("body", "status", "reported"), WRONG.values(), ids=WRONG)
def test_wrong_requests_are_refused_in_one_line(client, body, status, reported):
    response = client.post("/predict", content=body, headers=JSON)
    assert response.status_code in (status if isinstance(status, tuple) else (status,))
    assert reported in error_of(response)
    assert "\n" not in error_of(response)


@pytest.mark.parametrize("text", ["\ud800", "a" * 1001], ids=["half a character", "a long text"])
def test_a_text_to_explain_has_the_limits_of_any_text(client, text):
    response = client.post("/explain", content=json.dumps({"text": text}), headers=JSON)
    assert response.status_code == 422
    assert error_of(response).startswith("text: ")


def test_unknown_paths_and_methods(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/predict").status_code == 405


def test_a_slow_client_is_refused_while_others_are_served(server, client):
    host, port = server[1].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n{")
        assert client.post("/predict", json=TEXTS).status_code == 200
        slow.settimeout(PATIENCE)
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_disconnected_client_does_not_affect_others(server, client):
    host, port = server[1].removeprefix("http://").split(":")
    for part in (b"", b"POST /predict HT", b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n{"):
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(part)


def test_requests_that_arrive_together_share_batches(client):
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: client.post("/predict", json=TEXTS).status_code, range(64)))
    assert statuses == [200] * 64
    metrics = client.get("/metrics").text
    batches = float(re.findall(r"transevolve_batch_texts_count (\S+)", metrics)[0])
    texts = float(re.findall(r"transevolve_batch_texts_sum (\S+)", metrics)[0])
    assert texts / batches > 4
    assert 'transevolve_requests_total{path="/predict",status="200"}' in metrics
    assert "process_resident_memory_bytes" in metrics


def test_health_facts_schema_and_pages(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    info = client.get("/info").json()
    assert (info["kind"], info["path"]) == ("classification", "/predict")
    schema = client.get("/openapi.json").json()
    example = schema["paths"]["/predict"]["post"]["responses"]["200"]["content"]["application/json"]["example"]
    assert set(example["predictions"][0]["probabilities"]) == set(info["labels"])
    page = client.get("/").text
    assert '"explains":true' in page
    explained = client.post("/explain", json={"text": "a great film"})
    assert "How the model read this text" in explained.text
    assert client.post("/explain", json={"text": " "}).status_code == 422


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_with_answers_fits_any_screen(client, width, dark, tmp_path):
    answers = client.post(
        "/predict", json={"texts": ["a great film about a small town and its people", "word" * 50]}
    ).json()
    sent = f"""<script>
fetch = async () => ({{ok: true, json: async () => ({json.dumps(answers)})}});
element("texts").value = "a text";
element("form").requestSubmit();
</script>"""
    page = tmp_path / "page.html"
    page.write_text(client.get("/").text.replace("</body>", f"{sent}</body>"), encoding="utf-8")
    check_page(page, width, dark)
    label, probability = next(iter(answers["predictions"][0]["probabilities"].items()))
    assert re.search(rf"{label} {round(probability, 4):g}\b", dump(page))


@pytest.mark.slow
def test_a_signal_stops_the_server_after_its_last_answer():
    running, address = started("--wait_ms", "5000")
    with running, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.post, f"{address}/predict", json=TEXTS, timeout=PATIENCE)
        while "transevolve_queue_texts 2.0" not in httpx.get(f"{address}/metrics", timeout=PATIENCE).text:
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 0


@pytest.mark.slow
def test_a_killed_server_loses_only_the_requests_it_had():
    running, address = started("--wait_ms", "200")

    def ask(_: int) -> int:
        try:
            return httpx.post(f"{address}/predict", json=TEXTS, timeout=PATIENCE).status_code
        except httpx.TransportError:
            return 0

    with running, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, one) for one in range(64)]
        answers[0].result()
        running.kill()
        statuses = [one.result() for one in answers]
        assert set(statuses) == {0, 200}
        again, _ = started("--port", address.rsplit(":", 1)[1])
        with again:
            assert list(pool.map(ask, range(64))) == [200] * 64
            again.send_signal(signal.SIGTERM)
            again.communicate(timeout=PATIENCE)


def test_the_schema_is_a_page_that_needs_no_network(client):
    page = client.get("/docs").text
    for expected in ("POST /predict", "<code>texts</code>", "curl http://", "The request is too large"):
        assert expected in page
    assert re.findall(r"""(?:src|href)=["'](?!/)""", page) == []


@pytest.fixture(scope="module")
def translator():
    return load(RUNS / "translator", "cpu")


def test_a_translator_behind_a_token(translator):
    with TestClient(create_app(translator, token="secret")) as client:
        assert client.get("/healthz").status_code == client.get("/").status_code == 200
        for path in ("/translate", "/metrics", "/openapi.json", "/docs"):
            assert client.get(path).status_code == 401
        client.headers["authorization"] = "Bearer secre"
        assert client.post("/translate", json={"texts": ["one"]}).status_code == 401
        client.headers["authorization"] = "Bearer secret"
        found = client.post("/translate", json={"texts": ["one two", ""], "beam": 3, "n_best": 2}).json()
        expected = [p.as_dict() for p in translator.translate(["one two", ""], beam=3, n_best=2)]
        assert found["predictions"] == expected
        assert "<code>length_penalty</code>" in client.get("/docs").text
        response = client.post("/translate", json={"texts": ["one"], "beam": 1, "n_best": 2})
        assert (response.status_code, response.json()["error"][:8]) == (422, "--n_best")
        assert client.post("/translate", json={"texts": ["one"], "beam": 10**9}).status_code == 422
        assert client.post("/explain", json={"text": "one"}).status_code == 404


def test_a_full_queue_and_a_slow_model_are_stated(translator, monkeypatch):
    gate = threading.Event()
    predict = type(translator.kind).predict

    def wait(self, session, texts, where, **options):
        if texts != ["a text"]:
            gate.wait(60)
        return predict(self, session, texts, where, **options)

    monkeypatch.setattr(type(translator.kind), "predict", wait)
    limits = Limits(texts=2, queue=2, batch=1, wait=0.0, seconds=1.0)
    with TestClient(create_app(translator, limits)) as client, ThreadPoolExecutor(8) as pool:
        busy = list(pool.map(lambda _: client.post("/translate", json={"texts": ["one"]}), range(8)))
        statuses = sorted(response.status_code for response in busy)
        assert set(statuses) == {503, 504}
        full = next(response for response in busy if response.status_code == 503)
        assert full.headers["retry-after"] == "1"
        gate.set()
        assert client.post("/translate", json={"texts": ["one"]}).status_code == 200


def batched(limits: Limits, requests: list[tuple[list[str], str]], bad: str = "") -> tuple[list, list]:
    """The answers to requests that arrive together, and the batches they were answered in."""
    seen: list[list[str]] = []

    def answer(texts, options):
        seen.append(list(texts))
        if bad and bad in texts:
            raise UserError(f"{bad} is bad")
        return [{"text": text, "options": options} for text in texts]

    async def run():
        batcher = Batcher(answer, limits)
        batcher.start()
        jobs = (batcher.submit(texts, options) for texts, options in requests)
        found = await asyncio.gather(*jobs, return_exceptions=True)
        await batcher.close()
        return found

    return asyncio.run(run()), seen


def test_batches_contain_requests_with_the_same_options():
    requests = [(["a"], "x"), (["b"], "y"), (["c", "d"], "x"), (["e", "f"], "x"), (["g"] * 5, "x")]
    found, seen = batched(Limits(batch=4, wait=0.01), requests)
    assert seen == [["a", "c", "d"], ["b"], ["e", "f"], ["g"] * 5]
    assert [[row["text"] for row in rows] for rows in found] == [texts for texts, _ in requests]


def test_a_text_that_fails_fails_its_own_request_only():
    found, _ = batched(Limits(batch=4, wait=0.01), [(["a"], ""), (["b"], ""), (["c"], "")], bad="b")
    assert isinstance(found[1], UserError)
    assert [rows[0]["text"] for rows in (found[0], found[2])] == ["a", "c"]


def test_a_queue_has_room_for_its_limit():
    found, _ = batched(Limits(texts=2, queue=3, wait=0.01), [(["a", "b"], ""), (["c", "d"], ""), (["e"], "")])
    assert [isinstance(rows, Busy) for rows in found] == [False, True, False]


@pytest.mark.parametrize("wrong", [{"body": 0}, {"seconds": -1.0}, {"queue": 5}])
def test_limits_are_checked(wrong):
    with pytest.raises(UserError):
        replace(Limits(), **wrong)


def test_errors_before_the_server_starts(tmp_path, capsys):
    run = str(RUNS / "classifier")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        (tmp_path / "token").write_text("\n")
        for words, reported in (
            ([run, "--port", port], "cannot listen on 127.0.0.1"),
            ([run, "--port", "70000"], "--port must be"),
            ([run, "--token_file", str(tmp_path / "token")], "the token must be"),
            ([run, "--token_file", str(RUNS / "classifier" / "curves.png")], "the token must be"),
            ([run, "--token_file", "/dev/zero"], "the token must be"),
            ([run, "--queue", "1"], "has no room"),
        ):
            assert main(["serve", *words]) == 2
            assert reported in capsys.readouterr().err


def test_a_language_model_generates(tmp_path):
    config = TransEvolveConfig.from_pretrained(RUNS / "translator", is_encoder_decoder=False, is_decoder=True)
    run = as_run(tmp_path / "run", TransEvolveForCausalLM(config), RUNS / "translator")
    (run / "recipe.yaml").write_text("data:\n  task: causal\n")
    write_manifest(run)
    with TestClient(create_app(load(run, "cpu"))) as client:
        assert client.get("/info").json()["path"] == "/generate"
        request = {"texts": ["one", "two"], "new_tokens": 3, "temperature": 0.0}
        found = client.post("/generate", json=request).json()["predictions"]
        assert [row["prompt"] for row in found] == ["one", "two"]
        assert client.post("/generate", json={**request, "samples": 2}).status_code == 422
        assert client.post("/generate", json={**request, "top_p": 0}).status_code == 422
