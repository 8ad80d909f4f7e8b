internal import ChaparCore
internal import ChaparSimulator

/// The control API of a sandbox, by which tests in other languages, and people with curl, control the simulators.
///
/// `/apns/inbox` goes to the platform `apns`, and so on; `GET /` lists the platforms. A path without a platform's name
/// goes to the first simulated platform: APNs, unless it was left out.
struct SandboxControl: Sendable {
    let platforms: [any SimulatedPlatform]

    func answer(_ request: ControlRequest) -> ControlAnswer {
        do throws(ControlError) {
            return ControlAnswer(body: try route(request))
        } catch {
            return ControlAnswer(status: error.status, body: ["error": .string(error.message)])
        }
    }

    private func route(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        for platform in platforms {
            if let own = request.under(platform.name) { return try platform.control(own) }
        }
        guard let first = platforms.first else { throw ControlError("nothing is simulated", status: 404) }
        let answer = try first.control(request)
        guard request.method == "GET", request.path == "/", var overview = answer.objectValue else { return answer }
        overview["platforms"] = .array(platforms.map { .string($0.name) })
        return .object(overview)
    }
}
