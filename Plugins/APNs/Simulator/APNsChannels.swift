internal import ChaparCore

/// The broadcast channels of all apps.
struct APNsChannels: Sendable {
    /// A channel's configuration, fixed when it is made.
    struct Channel: Sendable, Hashable {
        /// The storage policy: 0 stores nothing, 1 keeps the newest message.
        let storagePolicy: Int64
    }

    private struct App: Hashable, Sendable {
        let environment: APNsEnvironment
        let bundleID: String
    }

    private var apps: [App: [String: Channel]] = [:]

    subscript(environment: APNsEnvironment, bundleID: String, id: String) -> Channel? {
        get { apps[App(environment: environment, bundleID: bundleID)]?[id] }
        set { apps[App(environment: environment, bundleID: bundleID), default: [:]][id] = newValue }
    }

    func count(_ environment: APNsEnvironment, _ bundleID: String) -> Int {
        apps[App(environment: environment, bundleID: bundleID)]?.count ?? 0
    }

    func ids(_ environment: APNsEnvironment, _ bundleID: String) -> [String] {
        apps[App(environment: environment, bundleID: bundleID)]?.keys.sorted() ?? []
    }
}
