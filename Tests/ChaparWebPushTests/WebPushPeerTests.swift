import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

/// Other implementations of the RFCs, in Python.
enum Peers {
    /// The Python that has them; `CHAPAR_PYTHON` names it.
    static var python: String { ProcessInfo.processInfo.environment["CHAPAR_PYTHON"] ?? "python3" }

    /// Whether it has a module.
    static func has(_ modules: String) -> Bool { (try? run("import \(modules)", []))?.status == 0 }

    /// Runs a program to its end, with standard output and error together; it is killed after 30 s.
    static func run(_ program: String, _ arguments: [String]) throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["timeout", "30", python, "-c", program] + arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.lowercased().hasSuffix("_proxy") }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}

@Suite(
    "http_ece and py-vapid read what we send",
    .timeLimit(.minutes(1)),
    .enabled(if: Peers.has("http_ece, py_vapid"), "needs Python with http_ece and py-vapid; see CHAPAR_PYTHON")
)
struct WebPushPeerTests {
    private static let decrypting = """
        import base64, sys, http_ece
        from cryptography.hazmat.backends import default_backend
        from cryptography.hazmat.primitives.asymmetric import ec
        def octets(text): return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        key = ec.derive_private_key(int.from_bytes(octets(sys.argv[1]), "big"), ec.SECP256R1(), default_backend())
        for body in sys.argv[3:]:
            text = http_ece.decrypt(octets(body), private_key=key, auth_secret=octets(sys.argv[2]), version="aes128gcm")
            print(len(text), text.decode()[:20])
        """

    @Test("Texts of every size and a Persian one are decrypted")
    func decrypts() throws {
        let subscription = try WebPushSubscription(WebPushEncryptionTests.Vector.subscription)
        let texts = ["a", "When I grow up, I want to be a watermelon", String(repeating: "x", count: 3_993), "چاپار"]
        let bodies = try texts.map {
            Base64URL.encode(try WebPushEncryption.body(of: Array($0.utf8), for: subscription))
        }
        let key = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
        let (status, output) = try Peers.run(Self.decrypting, [key, WebPushEncryptionTests.Vector.auth] + bodies)
        #expect(status == 0, "\(output)")
        let lines = texts.map { "\($0.utf8.count) \(String($0.prefix(20)))" }
        #expect(output.split(separator: "\n").map(String.init) == lines)
    }

    @Test("A VAPID token is verified; its end and its audience are ours to check")
    func verifies() throws {
        let auth = WebPushAuth(keys: [WebPushKey()], subject: "mailto:ops@example.com", lifetime: .seconds(43_200))
        let origin = HTTPEndpoint(host: "push.example.org", port: 8_443)
        let now = Date()
        let field = try auth.authorization(for: origin, key: 0, now: now)
        let program = """
            import base64, json, sys, time
            from py_vapid import Vapid02
            assert Vapid02.verify(sys.argv[1]), "the signature"
            token = sys.argv[1].split("t=")[1].split(",")[0].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            assert claims["aud"] == "https://push.example.org:8443", claims
            assert 0 < claims["exp"] - time.time() <= 86400, claims
            assert claims["sub"] == "mailto:ops@example.com", claims
            """
        let (status, output) = try Peers.run(program, [field])
        #expect(status == 0, "\(output)")
    }
}

@Suite(
    "pywebpush sends to the simulator",
    .timeLimit(.minutes(1)),
    .enabled(if: Peers.has("pywebpush"), "needs Python with pywebpush; see CHAPAR_PYTHON")
)
struct WebPushSenderTests {
    @Test("Every service accepts its encrypted and signed messages, and refuses a wrong key")
    func sends() async throws {
        try await WebPushSimulator.run { simulator in
            let key = try WebPushKey(Secret(simulator.vapidKeyPEM))
            let program = """
                import json, os, sys
                os.environ["REQUESTS_CA_BUNDLE"] = sys.argv[1]
                from pywebpush import webpush, WebPushException
                def send(subscription, key, text):
                    try:
                        answer = webpush(json.loads(subscription), text, vapid_private_key=key,
                            vapid_claims={"sub": "mailto:ops@example.com"}, ttl=60,
                            headers={"X-WNS-Cache-Policy": "cache"})
                        print(answer.status_code)
                    except WebPushException as error:
                        print(error.response.status_code if error.response is not None else error)
                for subscription in sys.argv[4:]:
                    send(subscription, sys.argv[2], "چاپار 1")
                send(sys.argv[4], sys.argv[3], "a wrong key")
                """
            try await withFile(simulator.certificatePEM) { ca in
                let subscriptions = WebPushService.allCases.map {
                    simulator.subscription("py", at: $0, applicationServerKey: key.publicKey)
                }
                let arguments = [ca, key.privateKey.reveal(), WebPushKey().privateKey.reveal()] + subscriptions
                let (status, output) = try Peers.run(program, arguments)
                #expect(status == 0, "\(output)")
                #expect(output.split(separator: "\n") == ["201", "201", "201", "201", "201", "403"])
            }
            #expect(simulator.inbox().map(\.text) == Array(repeating: "چاپار 1", count: 5))
        }
    }

    private func withFile(_ text: String, _ body: (String) async throws -> Void) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString).pem")
        try Data(text.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        try await body(file.path)
    }
}
