import CBuild
import PushAPNs
import PushAltcraft
import PushChabok
import PushCommands
import PushFCM
import PushHMS
import PushIDPush
import PushOneSignal
import PushReleaseNotes
import PushReleaseNotesCommand
import PushService

/// The one list of platforms that this program has.
///
/// A line here is all that registers a plugin.
enum Plugins {
    static let program = GatewayProgram(
        name: "chapar",
        commit: String(cString: build_commit()),
        backends: [
            .apns,
            .fcm,
            .hms,
            .oneSignal,
            .idPush(sender: .oneSignal),
            .altcraft,
            .chabok,
            .service,
        ],
        modules: [
            .releaseNotes
        ],
        commands: [
            ReleaseNotesCommand.self
        ]
    )
}
