package import ChaparSimulator

/// The release notes of a made-up app, for a sandbox's gateway: a property list and a JSON document.
package enum SandboxReleaseNotes {
    /// The app's id.
    package static let app = "shop"

    /// The key of the section.
    package static let key = "release_notes"

    /// The documents.
    package static var files: [SandboxFile] {
        [
            SandboxFile(name: "Versions-EN.plist", text: english), SandboxFile(name: "Versions-FA.json", text: persian),
        ]
    }

    /// The section of the configuration.
    package static let section = """
        release_notes:
          apps:
            shop:
              name: Chapar Shop
              current: "1.4.0"
              default_language: en
              sources: { en: Versions-EN.plist, fa: Versions-FA.json }
              review_url: https://apps.example/app/123?action=write-review
              ui:
                en:
                  submitReviewButtonStatus: { exist: { title: Rate the app } }
                  versionsDisplayConfiguration:
                    currentVersion: { whatsNew: { text: "What's new in", textColor: label } }
                fa:
                  isRightToLeft: true
                  submitReviewButtonStatus: { exist: { title: امتیاز به برنامه } }
                  versionsDisplayConfiguration:
                    currentVersion: { whatsNew: { text: تازه‌های نسخهٔ, textColor: label } }

        """

    private static let english = """
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">
        <array>
            <dict>
                <key>number</key><string>1.10.0</string>
                <key>changes</key><array><string>Faster search</string></array>
            </dict>
            <dict>
                <key>number</key><string>1.4</string>
                <key>changes</key>
                <array>
                    <string>Dark theme</string>
                    <string>Notifications that open the parcel they are about, wherever you are in the app</string>
                    <string>Fixes</string>
                </array>
            </dict>
            <dict>
                <key>number</key><string>1.3.2</string>
                <key>changes</key><array><string>Prices are shown in tomans</string></array>
            </dict>
            <dict>
                <key>number</key><string>1.0</string>
                <key>changes</key><array><string>First public version</string></array>
            </dict>
        </array>
        </plist>

        """

    private static let persian = """
        {"items": [
          {"number": "1.10.0", "changes": ["جست‌وجوی سریع‌تر"]},
          {"number": "1.4.0", "changes": ["پوستهٔ تیره", "اعلان‌هایی که بستهٔ خودشان را باز می‌کنند (iOS و Android)", "رفع اشکال‌ها"]},
          {"number": "1.3.2", "changes": ["نمایش قیمت‌ها به تومان"]},
          {"number": "1.0", "changes": ["نخستین نسخهٔ عمومی"]}
        ]}

        """
}
