/// Something that is started, used, and shut down whatever happens.
protocol Running: Sendable {
    /// Starts it, or throws and leaves nothing.
    func start() async throws
    /// Ends it; doing it twice is no mistake.
    func shutdown() async
}

extension Running {
    /// Starts it, runs `body`, and shuts it down whatever happens.
    func whileRunning<Value>(
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Self) async throws -> Value
    ) async throws -> Value {
        try await start()
        do {
            let value = try await body(self)
            await shutdown()
            return value
        } catch {
            await shutdown()
            throw error
        }
    }
}

extension Sandbox: Running {}
extension OAuth2Simulator: Running {}
