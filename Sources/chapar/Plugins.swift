import PushAPNs
import PushAltcraft
import PushChabok
import PushCore
import PushFCM
import PushHMS
import PushIDPush
import PushReleaseNotes
import PushService

/// The platforms this program knows: the one list.
///
/// A plugin's line here is all that registers it.
enum Plugins {
    static func registry() throws -> BackendRegistry {
        try BackendRegistry([.apns, .fcm, .hms, .oneSignal, .idPush, .altcraft, .chabok, .service])
    }

    /// What plugins bring to the API beside platforms.
    static var modules: [ModuleFactory] { [.releaseNotes] }
}
