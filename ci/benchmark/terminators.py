"""The terminators, and how each is told to be one worker that does nothing but terminate TLS."""

import glob
import resource
import shutil
import subprocess

from processes import PATIENCE_S

# A connection takes two descriptors, and everybody needs some for himself.
DESCRIPTORS_APART = 160


def raise_descriptors():
    """Allows us and our children all the descriptors there may be. Returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = min(hard, 1 << 20) if hard != resource.RLIM_INFINITY else 1 << 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def make_pair(cert, key, common_name="localhost"):
    """A certificate that needs no issuer, and its key."""
    run = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7"]
    run += ["-subj", f"/CN={common_name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    run += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert]
    subprocess.run(run, check=True, capture_output=True, timeout=PATIENCE_S)


class Place:
    """Where the files and ports of one run are."""

    def __init__(self, folder, upstream_port, connections):
        self.folder = folder
        self.upstream_port = upstream_port
        # The most that must fit.
        self.connections = connections
        # In a folder of their own: whoever watches it need not see logs grow.
        pair = folder / "pair"
        pair.mkdir()
        self.cert, self.key, self.both = pair / "tls.crt", pair / "tls.key", pair / "both.pem"
        make_pair(self.cert, self.key)
        self.both.write_text(self.key.read_text() + self.cert.read_text())

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


def tlsidecar(binary):
    def command(place, port):
        pair = ["--cert", place.cert, "--key", place.key]
        upstream = f"127.0.0.1:{place.upstream_port}"
        return [binary, "serve", "--workers", "1", "--listen", f"127.0.0.1:{port}", "--upstream", upstream, *pair]

    return command


def nginx(place, port):
    modules = glob.glob("/usr/lib*/nginx/modules/ngx_stream_module.so")
    load = f"load_module {modules[0]};" if modules else ""
    config = place.write(
        "nginx.conf",
        f"""{load}
        daemon off; worker_processes 1; pid {place.folder}/nginx.pid; error_log {place.folder}/nginx.err;
        events {{ worker_connections {2 * place.connections + 64}; }}
        stream {{
            server {{
                listen 127.0.0.1:{port} ssl backlog=1024;
                ssl_certificate {place.cert}; ssl_certificate_key {place.key}; ssl_protocols TLSv1.2 TLSv1.3;
                proxy_pass 127.0.0.1:{place.upstream_port}; proxy_buffer_size 64k;
            }}
        }}""",
    )
    return ["nginx", "-p", place.folder, "-c", config]


def haproxy(place, port):
    config = place.write(
        "haproxy.cfg",
        f"""global
    nbthread 1
    maxconn {place.connections + 20}
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode tcp
    timeout connect 10s
    timeout client 10m
    timeout server 10m
listen tls
    bind 127.0.0.1:{port} ssl crt {place.both} backlog 1024
    server plain 127.0.0.1:{place.upstream_port}
""",
    )
    return ["haproxy", "-db", "-q", "-f", config]


def hitch(place, port):
    config = place.write(
        "hitch.conf",
        f"""frontend = "[127.0.0.1]:{port}"
backend = "[127.0.0.1]:{place.upstream_port}"
pem-file = "{place.both}"
workers = 1
backlog = 1024
daemon = off
quiet = on
tls-protos = TLSv1.2 TLSv1.3
""",
    )
    return ["hitch", "--user=nobody", f"--config={config}"]


def stunnel(place, port):
    config = place.write(
        "stunnel.conf",
        f"""foreground = yes
pid =
debug = 3
[tls]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{place.upstream_port}
cert = {place.cert}
key = {place.key}
""",
    )
    return ["stunnel4", config]


def chosen(binary, only):
    """Commands by name, of those that were asked for and are installed."""
    known = {"tlsidecar": (str(binary.resolve()), tlsidecar(binary.resolve()))}
    known |= {"nginx": ("nginx", nginx), "haproxy": ("haproxy", haproxy), "hitch": ("hitch", hitch)}
    known |= {"stunnel": ("stunnel4", stunnel)}
    names = [name for name in only.split(",") if name] or list(known)
    missing = [name for name in names if name not in known or not shutil.which(known[name][0])]
    if missing:
        print(f"left out, not installed: {', '.join(missing)}", flush=True)
    return {name: known[name][1] for name in names if name not in missing}
