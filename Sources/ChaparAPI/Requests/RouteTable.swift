package import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparModules

/// The tree of all routes, which finds those of a path.
///
/// A literal step takes precedence over a variable one: `/v1/devices/batch` is not the device `batch`.
package struct RouteTable: Sendable {
    /// The routes of one path.
    package struct Match: Sendable {
        /// The path with its variable steps as names.
        package let path: String
        /// The routes, one for each method.
        let routes: [Route]
        /// The variable steps, in their order.
        package let values: [Substring]
        /// The module that the path belongs to; nil for the gateway's own paths.
        var module: (any GatewayModule)?
        /// Whether a key may also be the password of `Authorization: Basic`.
        package var takesBasicCredentials = false

        /// Returns the answer to a refused request in the form of the path's module; nil for the gateway's own form.
        package func answer(to problem: Problem) -> Response? {
            module?.answer(to: ModuleProblem(problem)).map { Response($0, further: problem.headers) }
        }

        /// Returns the route of a method; HEAD uses that of GET.
        package func route(_ method: HTTPRequest.Method) -> Route? {
            let method = method == .head ? .get : method
            return routes.first { $0.method == method }
        }

        /// The supported methods, for the field `Allow`.
        package var allowed: String {
            routes.flatMap { $0.method == .get ? ["GET", "HEAD"] : [$0.method.rawValue] }.joined(separator: ", ")
        }
    }

    /// All routes.
    package let routes: [Route]
    /// The tree of steps; the first node is its root.
    private var nodes = [Node()]

    /// A node of the tree: the steps that may follow, and the routes that end here.
    private struct Node: Sendable {
        var next: [String: Int] = [:]
        var variable: Int?
        var routes: [Route] = []
    }

    package init(_ routes: [Route]) {
        self.routes = routes
        for route in routes {
            var index = 0
            for step in Self.steps(of: route.path[...]) { index = child(of: index, step) }
            nodes[index].routes.append(route)
        }
    }

    private mutating func child(of index: Int, _ step: Substring) -> Int {
        let isVariable = step.first == "{"
        if let known = isVariable ? nodes[index].variable : nodes[index].next[String(step)] { return known }
        nodes.append(Node())
        let new = nodes.count - 1
        if isVariable { nodes[index].variable = new } else { nodes[index].next[String(step)] = new }
        return new
    }

    private static func steps(of path: Substring) -> [Substring] {
        path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
    }

    /// Returns the routes of a path without its query; nil when there are none.
    package func find(_ path: Substring) -> Match? {
        guard path.utf8.first == UInt8(ascii: "/") else { return nil }
        var values: [Substring] = []
        guard let index = find(Self.steps(of: path)[...], from: 0, &values) else { return nil }
        return Match(path: nodes[index].routes[0].path, routes: nodes[index].routes, values: values)
    }

    private func find(_ steps: ArraySlice<Substring>, from index: Int, _ values: inout [Substring]) -> Int? {
        guard let step = steps.first else { return nodes[index].routes.isEmpty ? nil : index }
        let rest = steps.dropFirst()
        if let next = nodes[index].next[String(step)], let found = find(rest, from: next, &values) { return found }
        guard let variable = nodes[index].variable, !step.isEmpty else { return nil }
        values.append(step)
        if let found = find(rest, from: variable, &values) { return found }
        values.removeLast()
        return nil
    }
}
