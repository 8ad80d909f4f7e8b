/// An account at a platform, from which a client makes its backend.
///
/// Each plugin has functions for its own: `.apns(key:keyID:teamID:topic:environment:common:)`,
/// `.fcm(serviceAccount:common:)`, `.hms(_:)`, `.ruStore(_:)`, `.webPush(_:)`, `.oneSignal(_:)`, `.service(_:)`.
/// Nothing is opened before `PushClient.add(_:as:)` makes the backend; one account may be added to several clients.
///
/// ```swift
/// let android = try client.add(.fcm(serviceAccount: json), as: "android")
/// ```
public struct PushAccount<Backend: PushBackend>: Sendable {
    private let body: @Sendable (BackendContext) throws -> Backend

    /// Makes an account, for instance of your own platform.
    ///
    /// - Parameter body: Makes a backend; the context has its name, its logger and the transport.
    public init(_ body: @escaping @Sendable (BackendContext) throws -> Backend) { self.body = body }

    /// Makes a backend of the account.
    ///
    /// Throws the plugin's error, for instance for a certificate or a proxy in the options that cannot work.
    public func backend(_ context: BackendContext) throws -> Backend { try body(context) }

    /// Returns an account whose backends are wrapped, as by `breaking()` or `paced(_:)`.
    ///
    /// - Parameter wrap: Wraps a backend; the context has the name under which the backend is added.
    /// - Returns: The account of the wrapped backends.
    public func map<Wrapped: PushBackend>(
        _ wrap: @escaping @Sendable (Backend, BackendContext) throws -> Wrapped
    ) -> PushAccount<Wrapped> {
        PushAccount<Wrapped> { context in try wrap(backend(context), context) }
    }
}
