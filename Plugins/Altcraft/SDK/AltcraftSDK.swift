internal import Foundation
public import Logging
public import ChaparCore
import ChaparAltcraft
internal import Synchronization

/// Altcraft's mobile SDK in its own words, for one device: for people and code that come from there.
///
/// A thin layer over ``ChaparAltcraft/AltcraftBackend``: what the SDK stored, this keeps in a store; what it repeated
/// in the background, ``AltcraftBackgroundTasks/run()`` repeats. A gateway that serves many devices uses the backend
/// itself. Set the JWT and token providers before ``initialization(configuration:)``, as with the SDK.
public final class AltcraftSDK: Sendable {
    /// The event stream.
    public let eventSDKFunctions: EventSDKFunctions
    /// Push tokens.
    public let pushTokenFunction: AltcraftTokenFunctions
    /// Subscriptions.
    public let pushSubscriptionFunctions: AltcraftSubscriptionFunctions
    /// Deliveries and openings.
    public let pushEventFunctions: AltcraftEventFunctions
    /// The background work of the SDK.
    public let backgroundTasks: AltcraftBackgroundTasks
    /// Payloads and taps.
    public let notificationManager: AltcraftNotifications

    let core: AltcraftSDKCore

    /// The SDK's own entry point: one for the process.
    ///
    /// It has no connections before ``connect(http:state:device:common:logger:)``, and no initialization succeeds
    /// before that.
    public static let shared = AltcraftSDK(
        http: Unconnected(),
        logger: Logger(label: "altcraft") { _ in SwiftLogNoOpLogHandler() }
    )

    /// Refuses to connect, and says what is to be done.
    private struct Unconnected: HTTPTransport {
        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            throw HTTPPoolError("the SDK has no connections: call AltcraftSDK.shared.connect(http:logger:) first")
        }
    }

    /// Gives the SDK what a phone has of itself; call it before ``initialization(configuration:)``.
    ///
    /// - Parameters:
    ///   - http: The transport that it sends through.
    ///   - state: Where requests wait, and the device's tokens are kept; nil keeps both in memory.
    ///   - device: The app's record of the device; its tokens come from the providers.
    ///   - common: Trust, proxy and deadline of requests.
    ///   - logger: The log.
    public func connect(
        http: any HTTPTransport,
        state: (any StateStore)? = nil,
        device: DeviceRecord = DeviceRecord(id: "this"),
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(60)),
        logger: Logger
    ) async {
        await core.connect(http, state ?? MemoryStateStore(limit: 10_000), device, common, logger)
    }

    /// Makes an SDK for one device.
    ///
    /// - Parameters:
    ///   - http: The transport that it sends through.
    ///   - state: Where requests wait, and the device's tokens are kept; nil keeps both in memory.
    ///   - device: The app's record of the device; its tokens come from the providers.
    ///   - common: Trust, proxy and deadline of requests.
    ///   - time: The clock.
    ///   - logger: The log.
    public init(
        http: any HTTPTransport,
        state: (any StateStore)? = nil,
        device: DeviceRecord = DeviceRecord(id: "this"),
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(60)),
        time: any TimeSource = SystemTime(),
        logger: Logger
    ) {
        eventSDKFunctions = EventSDKFunctions(time: time)
        core = AltcraftSDKCore(
            http: http,
            state: state ?? MemoryStateStore(limit: 10_000),
            device: device,
            common: common,
            time: time,
            logger: logger,
            events: eventSDKFunctions
        )
        pushTokenFunction = AltcraftTokenFunctions(core: core)
        pushSubscriptionFunctions = AltcraftSubscriptionFunctions(core: core)
        pushEventFunctions = AltcraftEventFunctions(core: core)
        backgroundTasks = AltcraftBackgroundTasks(core: core)
        notificationManager = AltcraftNotifications(core: core)
    }

    /// Sets everything up, and sends what waits; false after an event that says why not (401, 403, 571).
    @discardableResult
    public func initialization(configuration: AltcraftConfiguration?) async -> Bool {
        await core.initialize(configuration)
    }

    /// Names the part of the store that is used, for several SDKs over one store; an empty name is event 405.
    public func setAppGroup(groupName: String?) async { await core.setGroup(groupName) }

    /// Sets what gives JWTs; nil removes it.
    public func setJWTProvider(provider: (any JWTInterface)?) { core.jwt.withLock { $0 = provider } }

    /// Tells what the app knows of the device now: attributes and language.
    public func setDevice(_ device: DeviceRecord) async { await core.setDevice(device) }

    /// Cancels what waits and forgets tokens and configuration; tells Altcraft nothing.
    ///
    /// ``initialization(configuration:)`` is needed afterwards.
    public func clear() async { await core.clear() }

    /// Ends connections.
    public func shutdown(grace: Duration = .seconds(1)) async { await core.shutdown(grace) }
}
