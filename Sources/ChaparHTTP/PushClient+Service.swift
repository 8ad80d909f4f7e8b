#if ServiceLifecycleSupport
    public import ServiceLifecycle

    /// A client as a service of swift-service-lifecycle: it ends with the program.
    ///
    /// List it before the services that send through it: services end in reverse order.
    extension PushClient: Service {
        /// Waits until the graceful shutdown begins, or the task is cancelled; then ends as ``shutdown(grace:)`` does.
        ///
        /// Messages in flight get five seconds, and a backend that needs longer is abandoned a second later; call
        /// ``shutdown(grace:)`` first for another grace. Nothing is thrown.
        public func run() async throws {
            try? await gracefulShutdown()  // What it throws is a cancellation, after which the client ends as well.
            await shutdown()
        }
    }
#endif
