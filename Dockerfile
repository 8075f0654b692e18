# Keyrun's image: docs/deploy.md says how to build it and how to run it.
#
# The base needs glibc and libstdc++, and nothing else. The Node of the image is the builder's, and with
# it comes libatomic, without which Node 26 does not start.
ARG BASE=docker.io/library/debian:trixie-slim
ARG BUILDER=docker.io/library/node:26.12.1-trixie-slim

FROM ${BUILDER} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
COPY packages/transcode/package.json packages/transcode/
# Two secrets, both optional, for a registry of your own: its .npmrc, and the certificates that it
# needs. They are in no layer.
RUN --mount=type=secret,id=npmrc,target=/run/npmrc --mount=type=secret,id=npm-ca,target=/run/npm-ca.pem \
    NPM_CONFIG_USERCONFIG=/run/npmrc npm ci --ignore-scripts --no-update-notifier
COPY . .
# From here on, npm needs no network.
RUN npm run build:web \
 && npm prune --omit=dev --ignore-scripts --offline \
 && rm -rf node_modules/.cache node_modules/.package-lock.json node_modules/node-linux-* node_modules/.bin/node \
 && find node_modules -type f '(' -name '*.map' -o -name '*.[cm]ts' -o -name '*.ts' -o -name '*.md' ')' -delete \
 && mkdir -p /image/opt/keyrun/web /image/opt/keyrun/packages/transcode /image/usr/local/bin \
 && mv keyrun bin gen src node_modules package.json /image/opt/keyrun/ \
 && (cd packages/transcode && mv gen src package.json /image/opt/keyrun/packages/transcode/) \
 && mv web/dist /image/opt/keyrun/web/ \
 && cp "$(command -v node)" /image/usr/local/bin/node \
 && for lib in /usr/lib/*/libatomic.so.1; do install -D -m 644 "$lib" "/image$lib"; done \
 && ln -s /opt/keyrun/keyrun /image/usr/local/bin/keyrun \
 && chmod -R a+rX,go-w /image

FROM ${BASE}
COPY --from=build /image /
RUN install -d -m 700 -o 10001 -g 10001 /data
# The public listener serves callers outside of the container. The internal one stays on the
# loopback until a setting says how it is protected.
ENV KEYRUN_HOST=:: KEYRUN_DATA_DIR=/data
EXPOSE 8080
VOLUME /data
WORKDIR /data
USER 10001:10001
# The script ends in `exec`, so Node is process 1: it gets the signals, and its status is the container's.
ENTRYPOINT ["/opt/keyrun/keyrun"]
CMD ["serve"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/node", "/opt/keyrun/bin/health.mjs"]
