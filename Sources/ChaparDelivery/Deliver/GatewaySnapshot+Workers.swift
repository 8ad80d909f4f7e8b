internal import ChaparCore
internal import ChaparComposition

extension GatewaySnapshot {
    /// Returns the settings of a backend's worker.
    func workerSettings(of name: String) -> DeliveryWorker.Settings {
        let app = app(ofBackend: name) ?? .default
        let backends = backends(of: app)
        return DeliveryWorker.Settings(
            app: app,
            queue: configuration.queue,
            tokenPriority: configuration.tokenPriority,
            audiences: Dictionary(backends.map { ($0.name, $0.backend.audience) }) { first, _ in first },
            backends: backends.map { ($0.name, $0.backend) },
            fallbackAfter: fallbackAfter(of: name),
            takesReceipts: configuration.receipts[app] != nil,
            escalates: configuration.routes.contains { $0.plan.escalation != nil }
        )
    }

    /// Returns the shortest time after which a delivery goes to another backend while this backend's worker is stopped;
    /// nil when no delivery does.
    private func fallbackAfter(of name: String) -> Duration? {
        var shortest = configuration.queue.fallbackAfter
        for route in configuration.routes {
            guard let index = route.plan.backends.firstIndex(of: name) else { continue }
            var fallbackAfter: Duration?
            // A wait for the platform's status ends while the worker is stopped, too.
            if route.plan.onUnknown == .wait { fallbackAfter = .zero }
            if !route.isFanOut, index + 1 < route.plan.backends.count {
                fallbackAfter = fallbackAfter ?? route.plan.fallbackAfter
            }
            if let fallbackAfter { shortest = shortest.map { min($0, fallbackAfter) } ?? fallbackAfter }
        }
        return shortest
    }
}
