import CChaparBuild
import ChaparAPNs
import ChaparAltcraft
import ChaparChabok
import ChaparCommands
import ChaparFCM
import ChaparGorush
import ChaparHMS
import ChaparIDPush
import ChaparOneSignal
import ChaparReleaseNotes
import ChaparReleaseNotesCommand
import ChaparRuStore
import ChaparService
import ChaparWebPush
import ChaparWebPushCommand

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
            .ruStore,
            .oneSignal,
            .idPush(sender: .oneSignal),
            .altcraft,
            .chabok,
            .service,
            .webPush,
        ],
        modules: [
            .releaseNotes,
            .gorush,
        ],
        commands: [
            ReleaseNotesCommand.self,
            WebPushCommand.self,
        ]
    )
}
