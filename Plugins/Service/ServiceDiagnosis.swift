import Foundation
public import ChaparCore

extension ServiceBackend {
    /// Posts a batch without messages: a service that takes it can be reached and knows the secret.
    public func diagnose() async -> [Diagnosis] {
        let body = Array(#"{"version":1,"backend":\#(JSONValue.string(name).text),"messages":[]}"#.utf8)
        let seconds = Int64(clamping: time.now.timeIntervalSince1970)
        let fields = signature.fields(id: "msg_\(MessageID.random())", seconds: seconds, body: body)
        do throws(HTTPFailure) {
            let answer = try await pool.send(HTTPCall(template, path: path, headers: fields, body: body))
            switch answer.status {
            case 200: return [Diagnosis("service", .ok, "The service takes signed batches.")]
            case 401, 403:
                let fix = "Give both sides the same secret, and set both clocks."
                return [Diagnosis("secret", .failure, "The service refuses the signature.", fix: fix)]
            default:
                let fix = "Check url; an empty batch is answered with 200 and no outcomes."
                return [Diagnosis("service", .failure, "The service answered \(answer.status).", fix: fix)]
            }
        } catch {
            let fix = "Check url, ca_file and the network path."
            return [Diagnosis("reachability", .failure, error.detail, fix: fix)]
        }
    }
}
