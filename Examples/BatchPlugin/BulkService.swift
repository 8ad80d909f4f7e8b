import ChaparCore
import ChaparSandbox
import Synchronization

/// The platform Bulk on this machine: addresses that begin with `gone-` are unknown.
final class BulkService: SimulatedService {
    static let key = "a-key-of-the-account"
    static let webhookSecret = "what-the-webhook-is-signed-with"
    private let ids = Mutex<Set<String>>([])

    let kind: BackendKind = "bulk"
    var recipient: Recipient { .token("address-1", service: .bulk) }
    var taken: Int { ids.withLock { $0.count } }

    func section(url: String) -> JSONObject {
        ["url": .string(url + "/v1"), "key": .string(Self.key), "webhook_secret": .string(Self.webhookSecret)]
    }

    func answer(_ request: SimulatedRequest) -> HTTPAnswer {
        guard request.method == "POST", request.path == "/v1/batches" else { return HTTPAnswer(status: 404) }
        guard request.header("authorization") == "Bearer \(Self.key)" else { return HTTPAnswer(status: 401) }
        guard let messages = request.json?["messages"]?.arrayValue, messages.count <= 500 else {
            return HTTPAnswer(status: 422)
        }
        let results = messages.map { message -> JSONValue in
            let (id, address) = (message["id"]?.stringValue ?? "", message["to"]?.stringValue ?? "")
            if address.hasPrefix("gone-") { return ["id": .string(id), "state": "gone"] }
            ids.withLock { _ = $0.insert(id) }
            return ["id": .string(id), "state": "queued", "ref": .string("ref-\(id)")]
        }
        return HTTPAnswer(status: 200, body: JSONValue.object(["results": .array(results)]).bytes)
    }
}
