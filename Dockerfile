# The app with everything that runs without a GPU. Build: docker build -t stategate .
FROM python:3.11-slim
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 STATEGATE_HOME=/home/stategate/data \
    HF_HUB_DISABLE_TELEMETRY=1 ANONYMIZED_TELEMETRY=False
RUN useradd --create-home --uid 10001 stategate
WORKDIR /app
COPY requirements.lock pyproject.toml README.md LICENSE ./
# torch first: its CPU build is small (the lock names it in a comment).
RUN python -m pip install "$(sed -n 's/^# \(torch==.*\)/\1/p' requirements.lock)" \
 && python -m pip install --no-deps --require-hashes -r requirements.lock
COPY . .
RUN python -m pip install --no-deps . && mkdir -p "$STATEGATE_HOME" && chown -R stategate "$STATEGATE_HOME"
USER stategate
VOLUME /home/stategate/data
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:7860/', timeout=4)" || exit 1
# Who gets in comes from the environment: STATEGATE_AUTH=user:password
CMD ["stategate", "ui", "--config", "cluster", "--host", "0.0.0.0", "--port", "7860"]
