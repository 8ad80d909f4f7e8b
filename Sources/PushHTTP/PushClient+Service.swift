#if Services
    public import ServiceLifecycle

    /// A client in a program that swift-service-lifecycle runs: it ends with the program.
    ///
    /// Name it before whatever sends through it: services end in the opposite order.
    extension PushClient: Service {
        /// Stays open until the graceful shutdown begins, or until the task is cancelled; then ends as
        /// ``shutdown(grace:)`` does.
        ///
        /// Messages under way get five seconds, and a backend that needs longer is left behind a second later; call
        /// ``shutdown(grace:)`` before for another time. Nothing is thrown.
        public func run() async throws {
            try? await gracefulShutdown()  // What it throws is a cancellation, after which the client ends as well.
            await shutdown()
        }
    }
#endif
