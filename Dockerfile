# Built from the pinned, hashed packages; the image holds one environment with the service installed as a wheel.
# Runs on a read-only root: docker run --read-only --tmpfs /tmp --volume rigfit:/var/lib/rigfit --publish 127.0.0.1:8000:8000 rigfit
FROM python:3.13-slim-trixie AS build
WORKDIR /src

# requirements-tracing.txt adds what RIGFIT_TRACES needs: docker build --build-arg REQUIREMENTS=requirements-tracing.txt
ARG REQUIREMENTS=requirements.txt
COPY requirements.txt requirements-tracing.txt requirements-build.txt ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r requirements-build.txt \
    && python -m venv /opt/rigfit \
    && /opt/rigfit/bin/pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r "$REQUIREMENTS"

COPY pyproject.toml ./
COPY service service
COPY migrations migrations
COPY hardware_db hardware_db
COPY model_db model_db
RUN /opt/build/bin/hatchling build --target wheel --directory /opt/wheels \
    && /opt/rigfit/bin/pip install --no-cache-dir --no-deps /opt/wheels/rigfit-*.whl


FROM python:3.13-slim-trixie
RUN groupadd --system --gid 10001 rigfit \
    && useradd --system --uid 10001 --gid 10001 --no-create-home rigfit \
    && install --directory --owner rigfit --group rigfit /var/lib/rigfit

COPY --from=build /opt/rigfit /opt/rigfit
# nothing is written outside /var/lib/rigfit and /tmp
ENV PATH=/opt/rigfit/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    RIGFIT_HOST=0.0.0.0 \
    RIGFIT_LOG_FORMAT=json \
    RIGFIT_DRAIN_S=5 \
    RIGFIT_DATABASE_URL=sqlite:////var/lib/rigfit/rigfit.sqlite3 \
    RIGFIT_CACHE_FOLDER=/var/lib/rigfit/cache

USER 10001:10001
WORKDIR /var/lib/rigfit
VOLUME /var/lib/rigfit
EXPOSE 8000
# plans are answered without the database too: what is down with it is not this container
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz?exclude=database', timeout=2)"]

# alone, with its own SQLite file; docker-compose.yml runs the two steps against PostgreSQL instead
CMD ["sh", "-c", "rigfit migrate && exec rigfit serve"]
