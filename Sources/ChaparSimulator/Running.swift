/// A resource that is started, used, and always shut down.
package protocol Running: Sendable {
    /// Starts it; after an error nothing of it runs.
    func start() async throws
    /// Shuts it down; a second call does nothing.
    func shutdown() async
}

extension Running {
    /// Starts it, runs `body`, and shuts it down, also after an error.
    package func whileRunning<Value>(
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
