import PushAPNs
import PushCore
import PushFCM
import PushHMS

/// The platforms this program knows: the one list.
///
/// A plugin's line here is all that registers it.
enum Plugins {
    static func registry() throws -> BackendRegistry {
        try BackendRegistry([.apns, .fcm, .hms])
    }
}
