"""What the packages contain of others' work, for `.ci/licences`: found by C in their sources, and by copyright lines in all of them.

C must be under a folder of CONTAINED. A file that bears another copyright than OWN must be under a folder or file of CONTAINED, one part of
which has this holder. So what a package takes in with a new version is refused until it is named here.
"""
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Optional

NOTICES = Path(__file__).resolve().parent / "notices"


class Part(NamedTuple):
    """Others' work: what it is, and where the package's files say more."""

    name: str
    url: str
    licence: str
    # Whose copyright the files bear: an expression; "" is anybody's.
    holder: str = ""
    # A file below the folder, and an expression for its version there.
    version: Optional[tuple] = None
    # What has to be repeated: a file below the folder (None: the entry is that file itself) and an expression for the text there …
    terms: Optional[tuple] = None
    # … or files of .ci/notices, after a line that names the holder of the copyright.
    notice: tuple = ()


OWN = re.compile(r"Apple Inc\.? and the .* project authors|the Hummingbird authors|Gwendal Rou|JP Simard|Yams")
BORINGSSL = [
    Part("BoringSSL", "https://boringssl.googlesource.com/boringssl", "Apache-2.0", version=("hash.txt", r"at revision ([0-9a-f]{40})")),
    Part("fiat-crypto", "https://github.com/mit-plv/fiat-crypto", "Apache-2.0"),  # Of three that its authors offer.
]
CONTAINED = {
    "grdb.swift/GRDB/Utils/Inflections+English.swift": [
        Part("Active Support", "https://github.com/rails/rails", "MIT", "David Heinemeier Hansson", terms=(None, r"Copyright \(c\) 2005.*?IN THE SOFTWARE\.")),
    ],
    "swift-certificates/Sources/X509/X509BaseTypes/TimeCalculations.swift": [
        Part("musl", "https://musl.libc.org", "MIT", "Rich Felker", terms=(None, r"Copyright © 2005.*?IN THE SOFTWARE\.")),
    ],
    "swift-crypto/Sources/CCryptoBoringSSL": BORINGSSL,
    "swift-crypto/Sources/CXKCP": [
        Part("XKCP", "https://github.com/XKCP/XKCP", "CC0-1.0", version=("vendored-sources.txt", r"XKCP#\S+ \(\S*-g([0-9a-f]+)\)")),
        Part("brg_endian", "https://github.com/XKCP/XKCP", "Brian-Gladman-3-Clause",
             terms=("FIPS202-opt64/brg_endian.h", r"Copyright \(c\) 1998.*?fitness for purpose\.")),
    ],
    "swift-nio-extras/Sources/CNIOExtrasZlib": [
        Part("zlib", "https://github.com/madler/zlib", "Zlib", version=("include/nioextras-zlib.h", r'ZLIB_VERSION "([^"]+)"'),
             terms=("include/nioextras-zlib.h", r"Copyright \(C\) 1995.*?madler@alumni\.caltech\.edu")),
    ],
    "swift-nio-http2/Sources/NIOHPACK/HuffmanTables.swift": [
        Part("nghttp2", "https://github.com/nghttp2/nghttp2", "MIT", "Tatsuhiro Tsujikawa", terms=(None, r"Copyright \(c\) 2013.*?OR OTHER DEALINGS IN THE SOFTWARE\.")),
    ],
    "swift-nio-http2/Sources/NIOHTTP2": [Part("grpc-swift", "https://github.com/grpc/grpc-swift", "Apache-2.0", "gRPC Authors")],
    "swift-nio-ssl/Sources/CNIOBoringSSL": BORINGSSL,
    "swift-nio/Sources/CNIOAtomics": [
        Part("cpp_magic of uSHET", "https://github.com/18sg/uSHET", "MIT", "Thomas Nixon", version=("src/cpp_magic.h", r"uSHET/blob/([0-9a-f]{40})"),
             notice=("Copyright (c) 2014 Thomas Nixon, Jonathan Heathcote", "MIT.txt")),
    ],
    "swift-nio/Sources/CNIOLLHTTP": [
        Part("llhttp", "https://github.com/nodejs/llhttp", "MIT",
             version=("include/c_nio_llhttp.h", r"VERSION_MAJOR (\d+)\s+#define LLHTTP_VERSION_MINOR (\d+)\s+#define LLHTTP_VERSION_PATCH (\d+)"),
             terms=("LICENSE", r"Copyright.*")),
    ],
    "swift-nio/Sources/CNIOSHA1": [
        Part("sha1 of KAME", "https://github.com/kame/kame", "BSD-3-Clause", version=("c_nio_sha1.c", r"sha1\.c,v ([0-9.]+) "),
             terms=("c_nio_sha1.c", r"Copyright \(C\).*?SUCH DAMAGE\.")),
    ],
    "yams/Sources/CYaml": [
        Part("libyaml", "https://github.com/yaml/libyaml", "MIT",
             notice=("Copyright (c) 2017-2020 Ingy döt Net\nCopyright (c) 2006-2016 Kirill Simonov", "MIT.txt")),
    ],
    # C of the packages' own.
    **{f"{place.split('/')[0]}/Sources/{place.split('/')[1]}": [] for place in """async-http-client/CAsyncHTTPClient grdb.swift/GRDBSQLCipher
        swift-atomics/_AtomicsShims swift-crypto/CCryptoBoringSSLShims swift-crypto/CXKCPShims swift-distributed-tracing/_CWASI
        swift-nio-ssl/CNIOBoringSSLShims swift-nio/CNIODarwin swift-nio/CNIOFreeBSD swift-nio/CNIOLinux swift-nio/CNIOOpenBSD
        swift-nio/CNIOPosix swift-nio/CNIOWASI swift-nio/CNIOWindows swift-numerics/_NumericsShims swift-system/CSystem""".split()},
}
# What the runtime of Swift contains: its packages' sources are not here, so their texts stand in .ci/notices.
RUNTIME = [
    Part("ICU", "https://github.com/unicode-org/icu", "Unicode-3.0", notice=("ICU.txt",)),
    Part("uuid", "https://github.com/swiftlang/swift-foundation", "BSD-3-Clause", notice=("uuid.txt",)),
    Part("LLVM", "https://github.com/llvm/llvm-project", "Apache-2.0 WITH LLVM-exception"),
]
SOURCE = {".swift", ".c", ".cc", ".cpp", ".h", ".inc", ".S"}
CODE = {".c", ".cc", ".cpp", ".S"}
# Folders of others' work inside of others' work.
THIRD_PARTY = {"fiat"}


def contained(found):
    """The parts: name, version, place, licence, what has to be repeated, and the identity of the package that contains it."""
    parts = []
    for package in found:
        for place in check(package):
            for part in CONTAINED[place]:
                parts.append(entry(part, package["identity"], package["folder"] / place.split("/", 1)[1]))
    runtime = [entry(part, "swift-runtime", None) for part in RUNTIME]
    runtime[0]["version"] = icu_version()
    return parts + runtime


def check(package):
    """The places of CONTAINED that the package has; ends the program where one has what CONTAINED does not name."""
    used = set()
    for folder in [package["folder"] / "Sources", package["folder"] / "GRDB"]:
        for file in sorted(folder.rglob("*")):
            if file.suffix not in SOURCE or "Tests" in file.parts:
                continue
            inner = file.relative_to(package["folder"])
            place = next((str(at) for at in [inner, *inner.parents] if f"{package['identity']}/{at}" in CONTAINED), None)
            key = f"{package['identity']}/{place}"
            if place is None and file.suffix in CODE:
                refuse(package, inner, "is C: say whose it is")
            if place and CONTAINED[key]:
                used.add(key)
            third = inner.parts[inner.parts.index("third_party") + 1] if "third_party" in inner.parts else "fiat"
            if third not in THIRD_PARTY:
                refuse(package, inner, "is third party: name it, and its licence")
            holders = [part.holder for part in CONTAINED.get(key, [])]
            if "" in holders:
                continue
            for line in re.findall(r"(?im)^[ \t/*#!]*copyright\s+(?:\(c\)|©|[0-9]{4}).*", file.read_text(errors="replace")):
                if not OWN.search(line) and not any(re.search(holder, line) for holder in holders):
                    refuse(package, inner, f"bears “{line.strip(' /*#')}”: name the part")
    return sorted(used)


def refuse(package, file, why):
    sys.exit(f"{package['name']}: {file} {why} (CONTAINED in .ci/contained.py)")


def entry(part, within, folder):
    version, terms = None, []
    if part.version:
        file, pattern = part.version
        if not (match := re.search(pattern, (folder / file).read_text())):
            sys.exit(f"{within}: {file} does not say the version of {part.name} any more (CONTAINED in .ci/contained.py)")
        version = ".".join(match.groups())
    if part.terms:
        file, pattern = part.terms
        text = (folder / file if file else folder).read_text()
        if not (match := re.search(pattern, text, re.S)):
            sys.exit(f"{within}: the terms of {part.name} are not where they were (CONTAINED in .ci/contained.py)")
        terms.append(re.sub(r"(?m)^(?: ?\*|//)? ?", "", match[0]).strip())
    for notice in part.notice:
        terms.append((NOTICES / notice).read_text().strip() if notice.endswith(".txt") else notice)
    return {"name": part.name, "version": version, "url": part.url, "licence": part.licence, "within": within, "terms": "\n\n".join(terms)}


def icu_version():
    """What the toolchain's library says, where it has the libraries for static linking; else None."""
    said = subprocess.run(["swift", "-print-target-info", "-static-stdlib"], capture_output=True, text=True)
    for folder in json.loads(said.stdout)["paths"]["runtimeLibraryPaths"] if said.returncode == 0 else []:
        if (file := Path(folder) / "lib_FoundationICU.a").exists() and (match := re.search(rb"icudt(\d+)", file.read_bytes())):
            return match[1].decode()
    return None
