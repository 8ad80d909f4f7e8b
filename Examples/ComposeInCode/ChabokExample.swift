// Chabok from code: a message to a user, and what the app's server does with the click that comes back. Beside it the
// release notes of an app, as the client library NoskheKit has them.
import Foundation
import ChaparChabok
import ChaparCore
import ChaparHTTP
import ChaparReleaseNotes
import ChaparSandbox

enum ChabokExample {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let accessToken = Secret(sandbox.chabok.rules.accessTokens[ChabokSimulator.sandbox] ?? "")

        var options = ChabokOptions(appID: "shop", environment: .sandbox, accessToken: accessToken)
        // For Chabok itself leave the next two lines out.
        options.base = try HTTPBaseURL(sandbox.chabok.url(ChabokSimulator.sandbox))
        options.common.trustPEM = sandbox.chabok.certificatePEM
        let chabok = try client.add(as: "chabok") { try ChabokBackend(options: options, context: $0) }
        let parcel = PushNotification(title: "Parcel 7781", body: "Left Tabriz", data: ["order": 41])
        print("chabok:", await chabok.send(parcel, to: .user("989120001122")))

        let gold = ChabokSegment([.init("tags", .include, ["GOLD"]), .init("launchTime", .after, "72h")])
        let sent = try await chabok.messages.send(parcel, to: .segment(gold))
        print("chabok:", sent.devices ?? 0, "devices")

        // What the app received, and what its user tapped.
        let click = ChabokPayloadParser.parse(
            ["message": ["id": "m1", "content": "Left Tabriz", "data": ["order": 41]]],
            actionIdentifier: "com.apple.UNNotificationDefaultActionIdentifier"
        )
        print("chabok:", click.action, click.customData?.text ?? "no data")
        try showReleaseNotes()
    }

    private static func showReleaseNotes() throws {
        let document = #"[{"number": "1.4.0", "changes": ["Dark theme", "Fixes"]}, {"number": "1.3.2", "changes": []}]"#
        let notes = try ReleaseNotesReader.read(Array(document.utf8), name: "Versions.json").notes
        let current = ReleaseVersion(major: 1, minor: 4)
        print(NotesText.render(NotesView(notes, current: current, language: "en", appName: "Shop")))
    }
}
