#!/usr/bin/env python3
"""What does terminating TLS cost, beside other terminators?

Each terminator gets one worker on the first CPU; the load and the plaintext service behind it share the second. What is
reported is the terminator's own CPU time for a unit of work, and its memory: that depends on the terminator and hardly
on how fast the load can be made. Rounds are interleaved and the table shows medians.

Peers that are not installed are left out (Debian: nginx-light libnginx-mod-stream haproxy hitch stunnel4). Without nginx
a small service of our own stands behind, without wrk a small load of our own stands in front; both are slower, which
leaves the terminator more idle and a request a little dearer, for all alike. openssl is needed.
"""

import argparse
import contextlib
import csv
import glob
import os
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SMALL_BYTES = 200
BULK_CHUNK = 64 * 1024
PATIENCE_S = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# name, what one unit is, factor from CPU seconds (or kB) a unit to what is printed, digits after the point
MEASURES = [
    ("request", "us CPU / request", 1e6, 1),
    ("handshake", "us CPU / full handshake", 1e6, 0),
    ("download", "CPU s / GB to client", 1, 3),
    ("upload", "CPU s / GB from client", 1, 3),
    ("idle", "kB / idle connection", 1, 1),
    ("base", "kB at rest", 1, 0),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tlsidecar", type=Path, help="the binary to measure")
    parser.add_argument("--only", default="", help="names of terminators, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of load for requests and for handshakes")
    parser.add_argument("--bulk-mb", type=int, default=1000, help="to move each way")
    parser.add_argument("--idle", type=int, default=500, help="connections to hold open")
    parser.add_argument("--csv", type=Path, help="where to write every single figure")
    parser.add_argument("--limit-s", type=int, default=3600, help="of the whole run")
    return parser.parse_args()


# ---- processes: started on a CPU, looked at, ended


class Processes:
    """Starts children on a CPU of their own and ends them all."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []

    def start(self, name, command, cpu):
        log = open(self.folder / f"{name}.log", "ab")
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: pin(cpu),
        )
        self.running.append(child)
        return child

    def end(self, child):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        self.running.remove(child)

    def end_all(self):
        for child in list(self.running):
            self.end(child)


def pin(cpu):
    cpus = sorted(os.sched_getaffinity(0) | set(range(os.cpu_count() or 1)))
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {cpus[min(cpu, len(cpus) - 1)]})


def family(pid):
    """pid and all that descend from it"""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for children in glob.glob(f"/proc/{one}/task/*/children"):
            with contextlib.suppress(OSError):
                waiting += [int(child) for child in Path(children).read_text().split()]
    return found


def cpu_seconds(pid):
    """CPU time of a family so far, that of ended threads included"""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def memory_kb(pid):
    """proportional memory of a family"""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            match = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text(), re.M)
            total += int(match.group(1)) if match else 0
    return total


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(port, child):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"ended with {child.returncode} before it listened")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.02)
    raise RuntimeError("does not listen")


# ---- the terminators


class Place:
    """Where one run's files and ports are."""

    def __init__(self, folder, upstream_port):
        self.folder = folder
        self.upstream_port = upstream_port
        self.cert, self.key, self.both = folder / "tls.crt", folder / "tls.key", folder / "both.pem"
        run = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7"]
        run += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run(run + ["-keyout", self.key, "-out", self.cert], check=True, capture_output=True, timeout=PATIENCE_S)
        self.both.write_text(self.key.read_text() + self.cert.read_text())
        # The same key exchange for all, so that all terminators do the same work.
        self.client_settings = self.write(
            "openssl.cnf",
            "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\nGroups = X25519\n",
        )

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def context(self):
        return ssl.create_default_context(cafile=self.cert)


def tlsidecar(binary):
    def command(place, port):
        upstream = f"127.0.0.1:{place.upstream_port}"
        pair = ["--cert", place.cert, "--key", place.key]
        return [binary, "serve", "--workers", "1", "--listen", f"127.0.0.1:{port}", "--upstream", upstream, *pair]

    return command


def nginx(place, port):
    modules = glob.glob("/usr/lib*/nginx/modules/ngx_stream_module.so") + glob.glob("/etc/nginx/modules/ngx_stream_module.so")
    load = f"load_module {modules[0]};" if modules else ""
    config = place.write(
        "nginx-stream.conf",
        f"""{load}
        daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {place.folder}/nginx-stream.pid;
        error_log {place.folder}/nginx-stream.err; events {{ worker_connections 16000; }}
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
    maxconn 8000
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


def terminators(options):
    known = {}
    if options.tlsidecar:
        known["tlsidecar"] = (str(options.tlsidecar.resolve()), tlsidecar(options.tlsidecar.resolve()))
    peers = [("nginx", "nginx", nginx), ("haproxy", "haproxy", haproxy), ("hitch", "hitch", hitch), ("stunnel", "stunnel4", stunnel)]
    known |= {name: (program, command) for name, program, command in peers}
    chosen = [name for name in options.only.split(",") if name] or list(known)
    missing = [name for name in chosen if name not in known or not shutil.which(known[name][0])]
    if missing:
        print(f"left out, not installed: {', '.join(missing)}")
    return {name: known[name][1] for name in chosen if name not in missing}


# ---- the plaintext service


def start_upstream(processes, folder, port):
    if shutil.which("nginx"):
        config = folder / "upstream.conf"
        config.write_text(f"""
            daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {folder}/upstream.pid;
            error_log {folder}/upstream.err; events {{ worker_connections 16000; }}
            http {{
                access_log off; sendfile on; keepalive_requests 1000000000; client_max_body_size 0;
                server {{
                    listen 127.0.0.1:{port} backlog=1024; root {folder}/files;
                    location = /small {{ return 200 "{"x" * SMALL_BYTES}"; }}
                    location = /sink {{ return 200 "taken"; }}
                }}
            }}""")
        child = processes.start("upstream", ["nginx", "-p", folder, "-c", config], 1)
    else:
        print("nginx is not installed: a service of our own stands behind")
        child = processes.start("upstream", [sys.executable, __file__, "--upstream", str(port), str(folder)], 1)
    wait_for(port, child)


def serve_plain(port, folder):
    """The service without nginx: a thread a connection."""
    small = b"x" * SMALL_BYTES
    bulk = Path(folder, "files", "bulk").stat().st_size

    def answer(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = connection.makefile("rb")
        while line := reader.readline():
            path, length, close = line.split()[1], 0, line.endswith(b"1.0\r\n")
            while (header := reader.readline().strip().lower()):
                name, _, value = header.partition(b":")
                length = int(value) if name == b"content-length" else length
                close = close or (name == b"connection" and b"close" in value)
            while length:
                length -= len(reader.read(min(length, BULK_CHUNK)))
            size = bulk if path == b"/bulk" else len(small)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
            if path == b"/bulk":
                with open(Path(folder, "files", "bulk"), "rb") as file:
                    connection.sendfile(file)
            else:
                connection.sendall(small)
            if close:
                break
        connection.close()

    def quietly(connection):
        with contextlib.suppress(OSError, ValueError, IndexError):
            answer(connection)

    with socket.create_server(("127.0.0.1", port), backlog=1024) as server:
        while True:
            threading.Thread(target=quietly, args=(server.accept()[0],), daemon=True).start()


# ---- the load: each returns how many units went through


def run(command, place, limit_s):
    environment = os.environ | {"OPENSSL_CONF": str(place.client_settings)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s + PATIENCE_S, env=environment)
    return done.stdout


def requests(place, port, options):
    if not shutil.which("wrk"):
        return requests_of_our_own(place, port, options)
    load = ["wrk", "-t1", "-c32", f"-d{int(options.seconds)}s", "--timeout", "10s"]
    text = run(load + [f"https://127.0.0.1:{port}/small"], place, options.seconds)
    found = re.search(r"(\d+) requests in", text)
    if not found or re.search(r"Non-2xx", text):
        raise RuntimeError(f"wrk failed: {text[-200:]}")
    return int(found.group(1))


def requests_of_our_own(place, port, options):
    counts, deadline = [], time.monotonic() + options.seconds

    def ask():
        count = 0
        with connect(place, port) as connection:
            while time.monotonic() < deadline:
                connection.sendall(b"GET /small HTTP/1.1\r\nhost: localhost\r\n\r\n")
                read_answer(connection)
                count += 1
        counts.append(count)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) < len(threads):
        raise RuntimeError("a client failed")
    return sum(counts)


def handshakes(place, port, options):
    """New connections that never resume, each with one request."""
    load = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-time", str(int(options.seconds)), "-www", "/small"]
    clients = []
    with contextlib.ExitStack() as stack:
        environment = os.environ | {"OPENSSL_CONF": str(place.client_settings)}
        for _ in range(4):
            client = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
            stack.callback(client.kill)
            clients.append(client)
        texts = [client.communicate(timeout=options.seconds + PATIENCE_S)[0] for client in clients]
    counts = [re.search(r"(\d+) connections in \d+ real seconds", text) for text in texts]
    if not all(counts):
        raise RuntimeError("openssl s_time failed")
    return sum(int(count.group(1)) for count in counts)


def connect(place, port):
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return place.context().wrap_socket(plain, server_hostname="localhost")


def read_answer(connection):
    """Reads one answer and gives the length of its body."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = connection.recv(BULK_CHUNK)
        if not part:
            raise RuntimeError("the connection ended early")
        head += part
    head, _, body = head.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: *(\d+)", head, re.I).group(1))
    missing, buffer = length - len(body), bytearray(BULK_CHUNK)
    while missing > 0:
        count = connection.recv_into(buffer)
        if not count:
            raise RuntimeError("the connection ended early")
        missing -= count
    return length


def download(place, port, options):
    with connect(place, port) as connection:
        moved = 0
        while moved < options.bulk_mb * 1_000_000:
            connection.sendall(b"GET /bulk HTTP/1.1\r\nhost: localhost\r\n\r\n")
            moved += read_answer(connection)
    return moved / 1e9


def upload(place, port, options):
    length, chunk = options.bulk_mb * 1_000_000, os.urandom(BULK_CHUNK)
    with connect(place, port) as connection:
        connection.sendall(b"POST /sink HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % length)
        left = length
        while left:
            left -= connection.send(chunk[: min(left, BULK_CHUNK)])
        read_answer(connection)
    return length / 1e9


# ---- one terminator, one round


def measure(name, command, place, options, processes):
    """Figures by measure, in CPU seconds or kB a unit; and the rates by measure."""
    port = free_port()
    child = processes.start(name, command(place, port), 0)
    try:
        wait_for(port, child)
        with connect(place, port) as connection:
            connection.sendall(b"GET /small HTTP/1.1\r\nhost: localhost\r\n\r\n")
            read_answer(connection)
        figures, rates = {"base": memory_kb(child.pid)}, {}
        # Before any load: what a load leaves in a terminator's pools would hide what an idle connection takes.
        with contextlib.ExitStack() as stack:
            for _ in range(options.idle):
                stack.enter_context(connect(place, port))
            figures["idle"] = (memory_kb(child.pid) - figures["base"]) / options.idle
        for what, load in [("request", requests), ("handshake", handshakes), ("download", download), ("upload", upload)]:
            before, began = cpu_seconds(child.pid), time.monotonic()
            units = load(place, port, options)
            figures[what] = (cpu_seconds(child.pid) - before) / units
            rates[what] = units / (time.monotonic() - began)
        return figures, rates
    finally:
        processes.end(child)


def rounds(options, chosen, place, processes):
    rows, names = [], list(chosen)
    for number in range(1, options.rounds + 1):
        for name in names:
            try:
                figures, rates = measure(name, chosen[name], place, options, processes)
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                print(f"round {number}: {name} failed: {error}")
                continue
            rows += [(number, name, what, figures[what], rates.get(what)) for what, *_ in MEASURES]
            print(f"round {number}: {name} done", flush=True)
        # Nobody is always the first on a warm machine.
        names = names[1:] + names[:1]
    return rows


# ---- the table


def medians(rows):
    found = {}
    for _, name, what, figure, _ in rows:
        found.setdefault((name, what), []).append(figure)
    return {key: statistics.median(figures) for key, figures in found.items()}


def table(names, figures):
    width = max(map(len, names))
    print(f"\n{'medians':26}" + "".join(f"{name:>{max(width, 9) + 2}}" for name in names) + f"{'ours / best peer':>19}")
    for what, unit, factor, digits in MEASURES:
        cells = [figures.get((name, what)) for name in names]
        texts = ["-" if cell is None else f"{cell * factor:.{digits}f}" for cell in cells]
        peers = [cell for name, cell in zip(names, cells) if name != "tlsidecar" and cell]
        ours = figures.get(("tlsidecar", what))
        ratio = f"{ours / min(peers):.2f}" if ours is not None and peers else "-"
        print(f"{unit:26}" + "".join(f"{text:>{max(width, 9) + 2}}" for text in texts) + f"{ratio:>19}")


def write_csv(path, rows):
    units = {what: (unit, factor) for what, unit, factor, _ in MEASURES}
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["round", "terminator", "measure", "unit", "figure", "units_per_second"])
        for number, name, what, figure, rate in rows:
            unit, factor = units[what]
            writer.writerow([number, name, what, unit, f"{figure * factor:.4g}", "" if rate is None else f"{rate:.4g}"])


def main():
    options = arguments()
    # Ended from outside or by the clock, we still end what we started.
    for reason in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(reason, lambda number, _: sys.exit(f"ended early by {signal.Signals(number).name}"))
    signal.alarm(options.limit_s)
    if not shutil.which("openssl"):
        sys.exit("openssl is needed; on Debian: apt-get install openssl")
    if not shutil.which("wrk"):
        print("wrk is not installed: a load of our own stands in front")
    chosen = terminators(options)
    if not chosen:
        sys.exit("nothing to measure")
    pin(1)
    with tempfile.TemporaryDirectory(prefix="tlsidecar-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "files").mkdir()
        (folder / "files" / "bulk").write_bytes(os.urandom(1 << 20) * 16)
        processes = Processes(folder)
        try:
            place = Place(folder, free_port())
            start_upstream(processes, folder, place.upstream_port)
            rows = rounds(options, chosen, place, processes)
        finally:
            processes.end_all()
    if not rows:
        sys.exit("nothing could be measured")
    table([name for name in chosen if any(row[1] == name for row in rows)], medians(rows))
    if options.csv:
        write_csv(options.csv, rows)
    if options.tlsidecar and not any(row[1] == "tlsidecar" for row in rows):
        sys.exit("tlsidecar could not be measured")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--upstream"]:
        serve_plain(int(sys.argv[2]), sys.argv[3])
    else:
        main()
