public import PushCore

extension SMSBackend {
    /// A hundred messages for each request that can be on the wire.
    public var window: Int? { max(1, pool.status.streamLimit) * 100 }

    /// The connections, and why there are none.
    public var health: BackendHealth { BackendHealth(pool.status) }

    /// Asks the service with a request without messages, which it answers by 400 when the key is right, and sends nothing.
    public func diagnose() async -> [Diagnosis] {
        do throws(HTTPFailure) {
            let body = JSONValue.object(["messages": .array([])]).bytes
            let answer = try await pool.send(HTTPCall(template, path: path, body: body))
            switch answer.status {
            case 200, 400: return [Diagnosis("key", .ok, "The service takes the key.")]
            case 401, 403:
                return [Diagnosis("key", .failure, "The service refuses the key.", fix: Self.keyFix)]
            default:
                let finding = "The service answered \(answer.status)."
                return [Diagnosis("service", .failure, finding, fix: "Check url; else wait for the service.")]
            }
        } catch {
            return [Diagnosis("reachability", .failure, error.detail, fix: "Check url, ca_file and the network path.")]
        }
    }
}
