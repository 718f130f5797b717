# Built from the pinned, hashed packages; the image holds one environment with the service installed as a wheel.
FROM python:3.13-slim AS build
WORKDIR /src

COPY requirements.txt requirements-build.txt ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r requirements-build.txt \
    && python -m venv /opt/rigfit \
    && /opt/rigfit/bin/pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r requirements.txt

COPY pyproject.toml ./
COPY service service
COPY migrations migrations
COPY hardware_db hardware_db
COPY model_db model_db
RUN /opt/build/bin/hatchling build --target wheel --directory /opt/wheels \
    && /opt/rigfit/bin/pip install --no-cache-dir --no-deps /opt/wheels/rigfit-*.whl


FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home rigfit \
    && install --directory --owner rigfit /var/lib/rigfit

COPY --from=build /opt/rigfit /opt/rigfit
ENV PATH=/opt/rigfit/bin:$PATH \
    RIGFIT_HOST=0.0.0.0 \
    RIGFIT_LOG_FORMAT=json \
    RIGFIT_DATABASE_URL=sqlite:////var/lib/rigfit/rigfit.sqlite3

USER rigfit
WORKDIR /var/lib/rigfit
VOLUME /var/lib/rigfit
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]

# alone, with its own SQLite file; docker-compose.yml runs the two steps against PostgreSQL instead
CMD ["sh", "-c", "rigfit migrate && exec rigfit serve"]
