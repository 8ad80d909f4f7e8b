import HTTPTypes
import ChaparCore
import ChaparQueue
import Synchronization

extension FuzzTarget {
    /// A notification as callers post it: accepted or refused with reasons, the same however the body comes in.
    static let request = FuzzTarget.prepared("request") { body in
        let gateway = try FuzzGateway()
        try await body { bytes in
            let whole = try await gateway.ask(.post, "/v1/notifications", [bytes[...]])
            try FuzzGateway.check(whole)
            if whole.status == 202 {
                let id = whole.json?["id"]?.stringValue.flatMap { NotificationID($0) }
                try require(id != nil, "an accepted notification has an id")
            }
            let parts = stride(from: 0, to: bytes.count, by: 11).map { bytes[$0..<min($0 + 11, bytes.count)] }
            let cut = try await gateway.ask(.post, "/v1/notifications", parts)
            try require(cut.status == whole.status, "a body in parts means the same: \(cut.status), \(whole.status)")
            for member in ["code", "errors", "status", "recipients", "warnings"] {
                try require(cut.json?[member] == whole.json?[member], "\(member) are the same for a body in parts")
            }
        }
    }

    /// The field by which a client goes on with the stream of events: a number, or refused.
    static let lastEventID = FuzzTarget.prepared("last-event-id") { body in
        let gateway = try FuzzGateway()
        guard let name = HTTPField.Name("Last-Event-ID") else { throw Violation("the name is one") }
        try await body { bytes in
            var fields = HTTPFields()
            fields[name] = String(decoding: bytes, as: UTF8.self)
            let value = fields[name] ?? ""
            let reply = try await gateway.ask(.get, "/v1/events", [], fields)
            try FuzzGateway.check(reply)
            let isNumber = Int64(value).map { (0...NotificationID.highest).contains($0) } ?? false
            let isGood = value.isEmpty || isNumber
            try require(reply.status == (isGood ? 200 : 400), "a number is taken: \(value) gives \(reply.status)")
        }
    }

    /// Callbacks of platforms, signed as they are: taken or refused.
    static let receipt = FuzzTarget.prepared("receipt") { body in
        let gateway = try FuzzGateway()
        guard let huawei = HTTPField.Name("X-HUAWEI-CALLBACK-ID") else { throw Violation("the name is one") }
        let nonces = Mutex(0)
        try await body { bytes in
            let nonce = nonces.withLock { nonce in
                nonce += 1
                return nonce
            }
            let callbacks: [(String, HTTPFields)] = [
                ("huawei", [huawei: gateway.signature(nonce: nonce)]),
                ("chabok", [.authorization: FuzzGateway.chabokAuthorization]),
            ]
            for (backend, fields) in callbacks {
                let reply = try await gateway.ask(.post, "/v1/backends/\(backend)/receipts", [bytes[...]], fields)
                try FuzzGateway.check(reply)
                try require([200, 400].contains(reply.status), "the genuine is read: \(reply.json?.text ?? "")")
            }
            // The same bytes as the credential: no credential is found by chance.
            let text = String(decoding: bytes, as: UTF8.self)
            let forged: HTTPFields = [huawei: text, .authorization: text]
            for backend in ["huawei", "chabok"] {
                let reply = try await gateway.ask(.post, "/v1/backends/\(backend)/receipts", [[0x7B, 0x7D]], forged)
                try FuzzGateway.check(reply)
                let isGenuine = text.contains("value=") || text.contains(FuzzGateway.chabokAuthorization)
                try require(reply.status == 401 || isGenuine, "a forged callback is refused: \(reply.status)")
            }
        }
    }

    /// A click as an app reports it.
    static let click = FuzzTarget.prepared("click") { body in
        let gateway = try FuzzGateway()
        try await body { bytes in
            let reply = try await gateway.ask(.post, "/v1/backends/chabok/clicks", [bytes[...]])
            try FuzzGateway.check(reply)
            if reply.status == 200 {
                try require(reply.json?["notification"]?.objectValue != nil, "a click is told what it was about")
            }
        }
    }
}
