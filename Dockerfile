# Both deployables in one image. What is installed is pinned by hash; nothing of pip or a build is left in it.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/ requirements/

# The image's environment has no pip of its own: this stage's fills it.
RUN python -m venv --without-pip /opt/federation-quota
RUN python -m pip --python=/opt/federation-quota/bin/python install --no-deps --require-hashes -r requirements/runtime.txt

RUN python -m venv --without-pip /opt/build
RUN python -m pip --python=/opt/build/bin/python install --no-deps --require-hashes -r requirements/build.txt

COPY pyproject.toml README.md LICENSE ./
COPY federation_quota/ federation_quota/
COPY controllers/ controllers/
COPY webhook/ webhook/
RUN python -m pip --python=/opt/build/bin/python wheel --no-index --no-deps --no-build-isolation --wheel-dir=/opt/wheels .
RUN python -m pip --python=/opt/federation-quota/bin/python install --no-index --no-deps /opt/wheels/federation_quota-*.whl

FROM python:3.13-slim
LABEL org.opencontainers.image.title="federation-quota" \
      org.opencontainers.image.description="One quota for a whole Karmada federation" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/federation-quota /opt/federation-quota
ENV PATH=/opt/federation-quota/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
CMD ["federation-quota-webhook", "--help"]
