# The command line and everything it can read and write: docker build -t paloma . && docker run -v "$PWD:/data" paloma
# As a service: docs/service-operators.md.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/paloma \
    && /opt/paloma/bin/pip install --no-cache-dir -c constraints.txt '.[plot,parquet,faiss,pgvector,images,serve]'

FROM python:3.13-slim
COPY --from=build /opt/paloma /opt/paloma
RUN useradd --create-home paloma
USER paloma
WORKDIR /data
EXPOSE 8321
ENV PATH="/opt/paloma/bin:$PATH" NUMBA_CACHE_DIR=/tmp/numba
ENTRYPOINT ["paloma"]
CMD ["--help"]
