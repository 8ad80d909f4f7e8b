#!/usr/bin/env python3
"""Makes the pictures of docs/Page.md and of the README: the page in front of a gateway in which something of everything has happened.

    Tests/Dashboard/pictures.py [--page FOLDER] FOLDER

Needs what dashboard.py needs, and pillow from PyPI. Look at each picture before it goes into the documents.
"""
import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import checks_operating as operating
from browser import Browser, Scene
from PIL import Image

LARGEST = 60 * 1024  # Bytes of a picture.


def save(page, path):
    """Writes what is seen, with as many colours as fit."""
    page.driver.save_screenshot(str(path))
    for colours in (256, 128, 64, 32):
        Image.open(path).convert("RGB").quantize(colours, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= LARGEST:
            break
        page.driver.save_screenshot(str(path))
    print(f"{path}: {path.stat().st_size} bytes")


def message(page):
    """A message that failed, with the platform's words, and the resend that is asked for."""
    page.press("/")
    page.press("user:user-004 state:expired", operating.Keys.ENTER)
    page.click("main [data-row] [data-open]")
    page.until(lambda: page.has(".timeline"))


def dead(page):
    """What is sent again of a mended reason, counted before it happens."""
    page.click("[data-row='ServiceUnavailable/ios'] [data-action=resend]")
    page.ready()


def release(page):
    """The tokens that are marked dead once their number is typed."""
    page.click("[data-action=release]")
    page.ready()


def renew(page):
    """The credential that ends, and how it is renewed."""
    page.click("[data-row=ios-legacy] [data-action=how-to-renew]")


# Name, address, how it is opened, the height, and what is done there first.
PICTURES = [
    ("page-now", "#/", {}, 470, None), ("page-message", "#/", {"width": 1100}, 560, message), ("page-dead", "#/dead", {"width": 1100}, 560, dead),
    ("page-backends", "#/backends", {"width": 1100, "theme": "dark"}, 780, renew), ("page-quarantine", "#/quarantine/huawei", {"width": 1100}, 560, release),
    ("page-audiences", "#/audiences", {"language": "fa", "width": 420}, 720, None), ("dashboard", "#/", {}, 470, None), ("dashboard.fa", "#/", {"language": "fa"}, 470, None),
]


def main():
    arguments = argparse.ArgumentParser(description="Makes the pictures of the documents.")
    arguments.add_argument("--page", help="take the page from the files of this folder")
    arguments.add_argument("folder", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        browser, scene = Browser(), Scene(Path(folder), options.page)
        try:
            page = operating.Page(browser, scene)
            time.sleep(5)  # The campaign goes on a little.
            for name, address, more, height, act in PICTURES:
                page.at(address, **{"width": 1200, **more})
                page.resize(more.get("width", 1200), height)
                if act:
                    act(page)
                time.sleep(1)
                save(page, options.folder / f"{name}.png")
        finally:
            browser.driver.quit()
            scene.end()


if __name__ == "__main__":
    main()
