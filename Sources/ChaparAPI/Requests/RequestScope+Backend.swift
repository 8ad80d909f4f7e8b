internal import Foundation
internal import ChaparDelivery
internal import ChaparCore

/// A backend that a path names, with the ability that a request needs.
struct AbleBackend<Ability: Sendable>: Sendable {
    /// Its name in the configuration.
    let name: String
    /// The app of its tokens.
    let app: AppName
    let backend: any PushBackend
    let ability: Ability
}

extension RequestScope {
    /// Returns the backend that a path names, with an ability of its platform, for a caller that may use it.
    ///
    /// - Parameters:
    ///   - step: The step of the path.
    ///   - inability: The words for a backend without the ability: `keeps no topics`.
    ///   - find: Returns the ability; nil when a backend lacks it.
    /// - Returns: The backend.
    /// - Throws: 404 without such a backend that the caller may use, 422 for one of another app than the request names
    ///   or without the ability.
    func backend<Ability: Sendable>(
        _ step: Substring,
        _ inability: String,
        _ find: (any PushBackend) -> Ability?
    ) throws(Problem) -> AbleBackend<Ability> {
        let name = SyncEndpoint.decoded(step)
        let all = gateway.backends
        guard let found = all.first(where: { $0.name == name }) else {
            throw .notFound("There is no backend \(name.prefix(64)).")
        }
        var issues = RequestIssues()
        if parameter("app") != nil, try app() != found.app {
            issues.add("#/backend", "other_app", "This backend is of the app \"\(found.app)\".")
            throw Problem(issues)
        }
        if let ability = find(found.backend) {
            return AbleBackend(name: name, app: found.app, backend: found.backend, ability: ability)
        }
        let able = all.filter { find($0.backend) != nil }.map(\.name)
        let others = able.isEmpty ? "." : "; of those configured here: \(able.joined(separator: ", "))."
        let detail = "The backend \(name) (\(found.backend.kind)) \(inability)\(others)"
        issues.add("#/backend", "unsupported", detail)
        throw Problem(issues)
    }
}
