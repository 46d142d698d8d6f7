# A node of a Spark cluster in containers: a trimmed Java, Python, and Spark with an archive of its classes. And what
# disturbs nodes, in containers of its own: toxiproxy, iptables and tc.
#
# `python -m streamproof.harness.worlds.docker.build_image` builds it and fills the context: `site` holds the Python
# packages of the interpreter whose Spark is to run, streamproof's own or another one, so that a container has the very
# Spark that this machine has there.

ARG BASE=debian:bookworm-slim

FROM ${BASE} AS java
LABEL streamproof.stage=java
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jdk-headless
RUN java=$(dirname "$(dirname "$(readlink -f /usr/bin/jlink)")") \
    && jlink --output /opt/java --vm=server --no-header-files --no-man-pages --strip-java-debug-attributes \
        --add-modules java.se,jdk.attach,jdk.charsets,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jfr,jdk.management,jdk.management.agent,jdk.naming.dns,jdk.net,jdk.nio.mapmode,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs \
    && rm -rf /opt/java/legal \
    # What Debian has as links out of its folder.
    && for file in lib/security/cacerts conf/security/java.security; do \
        [ ! -e "$java/$file" ] || cp -L "$java/$file" "/opt/java/$file"; done \
    # jlink leaves the archive of Java's own classes out.
    && /opt/java/bin/java -Xshare:dump -Xlog:disable

FROM ${BASE} AS toxiproxy
LABEL streamproof.stage=toxiproxy
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends golang-go
# Those that the machine which builds trusts: what is between it and the world may have one of its own.
COPY certificates.pem /etc/ssl/certs/ca-certificates.crt
ARG GOPROXY
ARG TOXIPROXY=2.5.0
RUN CGO_ENABLED=0 GOBIN=/opt/toxiproxy go install -ldflags="-s -X github.com/Shopify/toxiproxy/v2.Version=$TOXIPROXY" \
        "github.com/Shopify/toxiproxy/v2/cmd/server@v$TOXIPROXY"

FROM ${BASE} AS node
LABEL streamproof.stage=node
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends iproute2 iptables python3 zlib1g \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc/* /usr/share/man/* /var/log/*
COPY --from=java /opt/java /opt/java
COPY site /opt/site
# Otherwise every container compiles them for itself.
RUN python3 -m compileall -q /opt/site
ENV JAVA_HOME=/opt/java PATH=/opt/java/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin PYTHONPATH=/opt/site LANG=C.UTF-8

FROM node AS classes
LABEL streamproof.stage=classes
COPY training /opt/training
RUN PYTHONPATH=/opt/training:/opt/site XDG_CACHE_HOME=/opt/cache PYTHONDONTWRITEBYTECODE=1 \
        python3 -m streamproof.harness.worlds.embedded.build_class_archive \
    && mv /opt/cache/streamproof/spark-*.jsa /opt/spark.jsa

FROM node
ARG CONTENT
LABEL streamproof.stage=final streamproof.content=${CONTENT}
COPY --from=classes /opt/spark.jsa /opt/spark.jsa
COPY --from=toxiproxy /opt/toxiproxy/server /usr/local/bin/toxiproxy-server
