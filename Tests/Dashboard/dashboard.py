#!/usr/bin/env python3
"""Looks at the operator's page in a real browser, headless Chromium, in front of real gateways with simulators.

    Tests/Dashboard/dashboard.py [--page FOLDER] [WORD ...]

Without --page the page is the one that the program holds; with it, the files of a folder (Sources/ChaparServer/Dashboard). With
words, only the checks whose names contain one, or the name of their file. The checks are the functions of the files checks_*.py.
Needs Chromium and its driver (Debian: chromium, chromium-driver), openssl, and from PyPI selenium and axe-playwright-python (for the axe-core in it).
Exit code 0: everything as expected; 1: something is not; 3: a program that is needed could not be found.
Environment: CHAPAR, the program, default .build/debug/chapar; CHAPAR_PAGE_EVENTS, how many events the check of the memory sends.
"""
import argparse
import contextlib
import importlib
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from browser import CHECKS, Browser, Scene, WebDriverException, expect

for found in sorted(Path(__file__).resolve().parent.glob("checks_*.py")):
    importlib.import_module(found.stem)


def carried_out(function, browser, scene):
    """Carries out a check, and gives what is wrong; whatever happens in the browser fails the check that was running."""
    try:
        browser.prefer("light")
        browser.speak("en-GB,en")
        function(browser, scene)
        # A page that stays open would complain in the next check about a gateway that ends with this one.
        browser.leave()
        foreign = browser.hosts - browser.own_hosts
        expect(not foreign, "the page asked other hosts:", foreign)
        expect(not browser.complaints, "the console says", *browser.complaints)
        expect(browser.hosts, "no request was seen at all")
    except Exception as error:
        with contextlib.suppress(WebDriverException):  # The browser itself may be gone.
            browser.leave()
        browser.complaints = []
        return f"{type(error).__name__}: {error}"
    return None


def main():
    arguments = argparse.ArgumentParser(description="Looks at the operator's page in a real browser.")
    arguments.add_argument("--page", help="take the page from the files of this folder")
    arguments.add_argument("words", nargs="*")
    options = arguments.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        browser, scene = Browser(), Scene(Path(folder), options.page)
        try:
            for function in CHECKS:
                if options.words and not any(word in f"{function.__module__}.{function.__name__}" for word in options.words):
                    continue
                started = time.monotonic()
                complaint = carried_out(function, browser, scene)
                print(f"{'FAILED' if complaint else 'ok':6} {time.monotonic() - started:5.1f} s  {function.__name__}", flush=True)
                if complaint:
                    failed.append(f"{function.__name__}: {complaint}")
                    print(f"       {complaint}", flush=True)
        finally:
            browser.driver.quit()
            scene.end()
    if failed:  # Once more: of a long run often nothing but its end is kept.
        print("\nWhat failed:", *failed, sep="\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
