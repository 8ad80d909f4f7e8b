internal import Foundation
import ChaparCore
import ChaparAltcraft
internal import Synchronization

/// Gives the present JWT.
///
/// It is called for each request, so it should answer from a cache.
public protocol JWTInterface: Sendable {
    /// Returns the JWT; nil when no user is logged in.
    func getToken() -> String?
}

/// Gives the app's APNs token.
public protocol APNSInterface: Sendable {
    /// Returns the token; nil when there is none yet.
    func getToken() async -> String?
}

/// Gives and deletes the app's Firebase token.
public protocol FCMInterface: Sendable {
    /// Returns the token; nil when there is none yet.
    func getToken() async -> String?
    /// Deletes the token; whether it is gone.
    func deleteToken() async -> Bool
}

/// Gives and deletes the app's Huawei token.
public protocol HMSInterface: Sendable {
    /// Returns the token; nil when there is none yet.
    func getToken() async -> String?
    /// Deletes the token; whether it is gone.
    func deleteToken() async -> Bool
}

/// The event stream of the SDK: one callback, which a new one replaces.
///
/// Events that happen while it is off are lost.
public final class EventSDKFunctions: Sendable {
    private struct Slot {
        var callback: (@Sendable (Event) -> Void)?
        var isOn = false
    }

    private let slot = Mutex(Slot())
    private let time: any TimeSource

    init(time: any TimeSource) { self.time = time }

    /// Replaces the callback, and switches delivery on.
    ///
    /// It runs where the event happens, and must not block.
    public func subscribe(callback: @escaping @Sendable (Event) -> Void) {
        slot.withLock { $0 = Slot(callback: callback, isOn: true) }
    }

    /// Switches delivery off until the next ``subscribe(callback:)``.
    public func unsubscribe() { slot.withLock { $0.isOn = false } }

    func deliver(_ event: AltcraftEvent) {
        let callback = slot.withLock { $0.isOn ? $0.callback : nil }
        callback?(Event.make(event))
    }

    func emit(
        _ level: AltcraftEvent.Level,
        _ function: String,
        _ message: String,
        _ code: Int,
        _ value: JSONObject? = nil
    ) {
        deliver(
            AltcraftEvent(level, function: function, message: message, eventCode: code, value: value, date: time.now)
        )
    }
}
