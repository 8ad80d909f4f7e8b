package import ChaparDelivery
package import ChaparCore

/// The choice of the app that a request is about.
///
/// The request itself decides first, then its API key; a gateway with one app needs neither.
package struct AppChoice {
    /// The reason why no app was found.
    struct Failure: Error {
        var code: String
        var detail: String
    }

    /// The gateway as the caller sees it.
    let snapshot: GatewaySnapshot
    /// Whether the caller sees the whole gateway.
    let isWhole: Bool

    /// Creates the choice for one caller.
    package init(snapshot: GatewaySnapshot, isWhole: Bool) {
        self.snapshot = snapshot
        self.isWhole = isWhole
    }

    /// The apps that the caller may name.
    ///
    /// A caller of the whole gateway also reaches devices of an app without backends, such as the one from before apps
    /// were named.
    var all: [AppName] {
        Set(snapshot.apps + snapshot.configuration.apps + (isWhole ? [.default] : [])).sorted()
    }

    private func includes(_ app: AppName) -> Bool {
        snapshot.apps.contains(app) || snapshot.configuration.apps.contains(app) || isWhole && app == .default
    }

    /// Returns the app that a request names; nil when it names none.
    func app(_ name: String?) throws(Failure) -> AppName {
        let known = snapshot.apps
        if let name {
            let app = AppName(rawValue: name)
            guard includes(app) else {
                let names = Set(known + snapshot.configuration.apps).sorted().map(\.rawValue)
                let hint = didYouMean(name, names) ?? "The apps are \(names.joined(separator: ", "))."
                throw Failure(code: "unknown_app", detail: hint)
            }
            return app
        }
        guard known.count > 1 else {
            let only = known.first ?? (all.count == 1 ? all.first : nil) ?? .default
            guard includes(only) else {
                throw Failure(code: "app_missing", detail: "None of the API key's backends is configured.")
            }
            return only
        }
        let names = known.map(\.rawValue).joined(separator: ", ")
        throw Failure(code: "app_missing", detail: "Several apps share the gateway; say which: \(names).")
    }
}

extension RequestScope {
    /// The choice among the apps that the caller may name.
    var apps: AppChoice { AppChoice(snapshot: gateway, isWhole: caller.view == nil) }

    /// Returns the app of a request about devices or users: `?app=`, else its key's, else the only one.
    func app() throws(Problem) -> AppName { try app(parameter("app")) }

    /// Returns the app of this name; without one the key's, else the only one.
    package func app(_ name: String?, at pointer: String = "#/app") throws(Problem) -> AppName {
        do throws(AppChoice.Failure) {
            return try apps.app(name)
        } catch {
            var issues = RequestIssues()
            issues.add(pointer, error.code, error.detail)
            throw Problem(issues)
        }
    }

    /// Returns the key of the device that a path names.
    func device(_ step: Substring) throws(Problem) -> String { try app().key(SyncEndpoint.decoded(step)) }
}
