internal import Foundation
public import Logging
public import ChaparCore
import ChaparAltcraft
internal import Synchronization

/// Altcraft's mobile SDK with its own names, for one device: for code that was written for the SDK.
///
/// A thin layer over ``ChaparAltcraft/AltcraftBackend``. A store takes the place of the SDK's database, and
/// ``AltcraftBackgroundTasks/run()`` that of its background work. A gateway that serves many devices uses the backend
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

    /// The one instance of the SDK in the process, under the name that Altcraft's own SDK gives it.
    ///
    /// Call ``connect(http:state:device:common:logger:)`` first, which gives it a transport, a store and a device.
    /// Until then ``initialization(configuration:)`` fails.
    public static let shared = AltcraftSDK(
        http: Unconnected(),
        logger: Logger(label: "altcraft") { _ in SwiftLogNoOpLogHandler() }
    )

    /// A transport that refuses to connect; its error names the call to make first.
    private struct Unconnected: HTTPTransport {
        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            throw HTTPPoolError("the SDK has no connections: call AltcraftSDK.shared.connect(http:logger:) first")
        }
    }

    /// Sets the transport, the store and the device, which the SDK of a phone has itself; call it before
    /// ``initialization(configuration:)``.
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

    /// Makes the backend and sends waiting requests; returns false after an event with the reason (401, 403, 571).
    @discardableResult
    public func initialization(configuration: AltcraftConfiguration?) async -> Bool {
        await core.initialize(configuration)
    }

    /// Names the part of the store that is used, for several SDKs over one store; an empty name is event 405.
    public func setAppGroup(groupName: String?) async { await core.setGroup(groupName) }

    /// Sets the provider of JWTs; nil removes it.
    public func setJWTProvider(provider: (any JWTInterface)?) { core.jwt.withLock { $0 = provider } }

    /// Sets the app's present data of the device: attributes and language.
    public func setDevice(_ device: DeviceRecord) async { await core.setDevice(device) }

    /// Cancels waiting requests and forgets tokens and configuration; sends nothing to Altcraft.
    ///
    /// ``initialization(configuration:)`` is needed afterwards.
    public func clear() async { await core.clear() }

    /// Ends connections.
    public func shutdown(grace: Duration = .seconds(1)) async { await core.shutdown(grace) }
}
