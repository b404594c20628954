# A server for one run: docker build -t transevolve . && docker run -p 8000:8000 -v ./run:/run:ro -e TRANSEVOLVE_TOKEN transevolve
FROM python:3.11-slim

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY recipes recipes
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[serve]" \
    && useradd --create-home --uid 1000 server

USER 1000
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["transevolve", "serve"]
CMD ["/run", "--host", "0.0.0.0"]
