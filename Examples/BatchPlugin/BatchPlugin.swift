// A plugin of the other shape: many messages in a request, an outcome for each, and a signed webhook for what happens later.
// The program holds it to the promises of a backend, over the platform's simulator.
import Crypto
import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting

@main
enum BatchPlugin {
    static func main() async throws {
        var failed = 0
        for check in BackendConformance.checks {
            do {
                let skip = try await run(check)
                print(skip == nil ? "kept  " : "no    ", check, skip.map { "(\($0))" } ?? "")
            } catch {
                failed += 1
                print("BROKEN", check, error)
            }
        }
        print(failed == 0 ? "Bulk keeps the promises of a backend." : "Bulk breaks \(failed) promises.")
        if failed > 0 { exit(1) }
    }

    /// One check, with a fresh platform and a fresh backend.
    private static func run(_ check: BackendConformance.Check) async throws -> ConformanceSkip? {
        try await Simulator.run(BulkService()) { simulator in
            let (log, timeout) = (RecordedLog(), Duration.seconds(check.wantsHaste ? 3 : 60))
            let transport = NIOTransport(logger: log.logger)
            guard let url = HTTPBaseURL(url: simulator.url + "/v1") else { return nil }
            let sent = RecordedTransport(transport)
            let backend = try BulkBackend(
                url,
                key: Secret(BulkService.key),
                webhookSecret: Secret(BulkService.webhookSecret),
                common: CommonBackendOptions(trustPEM: simulator.certificatePEM, timeout: timeout),
                http: sent
            )
            var subject = BackendConformance.Subject(
                backend: backend,
                recipient: { .token("address-\($0)", service: .bulk) },
                deadRecipient: .token("gone-1", service: .bulk),
                foreignRecipient: .token("00fc13adff785122", service: .iOSAPNs),
                taken: { simulator.service.taken },
                requests: { simulator.requests },
                disturb: { try simulator.disturb($0.rawValue) }
            )
            subject.takesRepeatsOnce = true
            subject.sent = { sent.requests }
            // A batch has no time to live, the key does not end, and an address is a word.
            subject.lacks = [.timeToLive, .expiringCredentials, .addresses]
            subject.deadline = timeout
            subject.secrets = [Secret(BulkService.key), Secret(BulkService.webhookSecret)]
            subject.log = log
            subject.means.callback = {
                callback(#"{"events": [{"ref": "ref-1", "state": "delivered", "at": 1767225600}]}"#)
            }
            let result: Result<ConformanceSkip?, any Error>
            do { result = .success(try await check.run(subject)) } catch { result = .failure(error) }
            await backend.shutdown(grace: .zero)
            await transport.shutdown(grace: .milliseconds(100))
            return try result.get()
        }
    }

    /// A callback as Bulk signs it.
    private static func callback(_ text: String) -> ReceiptCallback {
        let body = Array(text.utf8)
        let key = SymmetricKey(data: Data(BulkService.webhookSecret.utf8))
        let signature = Data(HMAC<SHA256>.authenticationCode(for: body, using: key)).base64EncodedString()
        return ReceiptCallback(headers: [HTTPHeader("x-bulk-signature", signature)], body: body, receivedAt: Date())
    }
}
