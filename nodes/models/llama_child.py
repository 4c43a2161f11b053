"""The program of the model server's process: one llama.cpp server, until standard input ends.

Reads its settings as one JSON line from standard input, loads the model, answers with one JSON line
on standard output, and then waits. It imports nothing of Stategate's, and ends at once when the
process that started it closes the pipe or dies, however it dies.
"""

import json
import os
import sys


def main() -> None:
    """Serve until standard input ends."""
    settings = json.loads(sys.stdin.readline())
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the library prints must not be taken for the answer
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # a free one
    params.api_keys = [settings["key"]]
    params.cache_prompt = True
    params.cache_ram_mib = 512  # for prefixes of earlier prompts; llama.cpp's own default is 8192
    params.ui = params.endpoint_slots = False
    params.verbosity = 1  # errors only
    server = xllamacpp.Server(params)
    print(json.dumps({"address": server.listening_address}), file=answer, flush=True)
    sys.stdin.read()
    # Not through the library's destructor: it waits for the answer in progress, and can wait forever.
    os._exit(0)


if __name__ == "__main__":
    main()
