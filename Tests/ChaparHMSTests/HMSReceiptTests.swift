import Crypto
import Foundation
import ChaparCore
import Testing

@testable import ChaparHMS

@Suite("Delivery receipts of Huawei", .timeLimit(.minutes(1)))
struct HMSReceiptTests {
    static let now = Date(timeIntervalSince1970: 1_767_225_600)
    static let newer = """
        {"statuses":[{"token":"IQAAAACy0sampleA","requestId":"176722560012345600","biTag":"delivery-2026-01",
        "appPackageName":"com.example.courier","pushType":0,"deliveryStatus":{"result":0,"timestamp":1767225601000}}]}
        """
    static let older = """
        {"statuses":[{"biTag":"delivery-2026-01","appid":"100200300","token":"IQAAAACy0sampleA","status":0,
        "timestamp":1767225601000,"requestId":"176722560012345600"}]}
        """

    static func callback(
        _ body: String,
        key: Data = Data("sandbox".utf8),
        user: String = "chapar",
        at time: Date = now,
        nonce: String? = nil,
        header: String? = nil
    ) -> ReceiptCallback {
        // One for each body, as Huawei draws one for each callback.
        let nonce = nonce ?? String(body.hashValue)
        let timestamp = String(time.millisecondsSince1970)
        let code = HMAC<SHA256>.authenticationCode(
            for: Data((timestamp + nonce + user).utf8),
            using: SymmetricKey(data: key)
        )
        let value = header ?? "timestamp=\(timestamp); nonce=\(nonce); value=\(Data(code).base64EncodedString())"
        return ReceiptCallback(
            headers: [HTTPHeader("x-huawei-callback-id", value)],
            body: Array(body.utf8),
            receivedAt: now
        )
    }

    static let base64 = HMSReceipts(
        HMSReceiptOptions(user: "chapar", secret: Secret(Data("sandbox".utf8).base64EncodedString()))
    )
    static let raw = HMSReceipts(HMSReceiptOptions(user: "chapar", secret: Secret("sandbox"), encoding: .raw))

    @Test("Both forms are read, with a secret in either encoding", arguments: [newer, older])
    func reads(body: String) throws {
        for reader in [Self.base64, Self.raw] {
            let receipts = try reader.receipts(in: Self.callback(body))
            #expect(
                receipts == [
                    DeliveryReceipt(
                        .delivered,
                        platformID: "176722560012345600",
                        token: "IQAAAACy0sampleA",
                        deliveryTag: "delivery-2026-01",
                        reason: "delivered",
                        at: Date(timeIntervalSince1970: 1_767_225_601)
                    )
                ]
            )
        }
        #expect(String(decoding: Self.raw.acknowledgement, as: UTF8.self) == #"{"code":"0","message":"success"}"#)
    }

    @Test("A signed field is good for one body, which may come again, for as long as its timestamp is")
    func replay() throws {
        let reader = HMSReceipts(HMSReceiptOptions(user: "chapar", secret: Secret("sandbox"), encoding: .raw))
        let first = Self.callback(Self.newer, nonce: "n-1")
        #expect(try reader.receipts(in: first).count == 1)
        #expect(try reader.receipts(in: first).count == 1, "Huawei tries again when no answer comes")
        let forged = Self.callback(Self.older, nonce: "n-1")
        #expect(try reader.isAuthentic(head: forged), "the signature says nothing about the body")
        let refusal = #expect(throws: ReceiptRefusal.self) { try reader.receipts(in: forged) }
        #expect(refusal == .notAuthentic("the same X-HUAWEI-CALLBACK-ID came with another body before"))
        #expect(try reader.receipts(in: Self.callback(Self.older, nonce: "n-2")).count == 1)
    }

    @Test("The memory of callbacks is bounded, and cleared when their time is over")
    func memory() {
        let memory = HMSNonces(life: 600, capacity: 100)
        for number in 0..<1_000 {
            #expect(memory.isFirstBody([1], of: Data("\(number)".utf8), at: Self.now))
            #expect(memory.count <= 100)
        }
        #expect(!memory.isFirstBody([2], of: Data("999".utf8), at: Self.now))
        #expect(!memory.isFirstBody([2], of: Data("950".utf8), at: Self.now.addingTimeInterval(600)))
        #expect(memory.isFirstBody([2], of: Data("999".utf8), at: Self.now.addingTimeInterval(601)))
        #expect(memory.count == 1)
    }

    @Test("A callback without the right signature, or with an old one, is not believed")
    func authenticity() throws {
        let wrong = [
            Self.callback(Self.newer, key: Data("other".utf8)), Self.callback(Self.newer, user: "somebody"),
            Self.callback(Self.newer, at: Self.now.addingTimeInterval(-301)),
            Self.callback(Self.newer, at: Self.now.addingTimeInterval(301)),
            Self.callback(Self.newer, header: ""), Self.callback(Self.newer, header: "timestamp=1;nonce=2;value=%%%"),
            Self.callback(Self.newer, header: "timestamp=x;nonce=2;value=AAAA"),
            ReceiptCallback(headers: [], body: Array(Self.newer.utf8), receivedAt: Self.now),
        ]
        for callback in wrong {
            #expect(throws: ReceiptRefusal.self) { try Self.base64.isAuthentic(head: callback) }
            let refusal = #expect(throws: ReceiptRefusal.self) { try Self.base64.receipts(in: callback) }
            guard case .notAuthentic(let words)? = refusal else {
                Issue.record("not refused for its signature: \(String(describing: refusal))")
                continue
            }
            #expect(!words.contains("sandbox"))
        }
        #expect(
            try Self.base64.receipts(in: Self.callback(Self.newer, at: Self.now.addingTimeInterval(-299))).count == 1
        )
    }

    @Test("A signed callback that cannot be read is malformed", arguments: ["", "[]", #"{"statuses":1}"#, "<html>"])
    func malformed(body: String) throws {
        let refusal = #expect(throws: ReceiptRefusal.self) { try Self.raw.receipts(in: Self.callback(body)) }
        guard case .malformed? = refusal else {
            Issue.record("not malformed: \(String(describing: refusal))")
            return
        }
    }

    @Test(
        "A status says what became of the message, and 2 and 5 that the token is dead",
        arguments: [
            (0, DeliveryReceipt.Event.delivered, false), (2, .failed, true), (5, .failed, true), (6, .failed, false),
            (10, .failed, false), (14, .note, false), (15, .failed, false), (22, .failed, false), (27, .note, false),
            (31, .failed, false), (51, .note, false), (102, .failed, false), (144, .failed, false),
            (201, .failed, false),
            (256, .failed, false), (999, .note, false),
        ]
    )
    func statuses(status: Int, event: DeliveryReceipt.Event, isDeath: Bool) throws {
        let body =
            #"{"statuses":[{"token":"t","requestId":"r","deliveryStatus":{"result":\#(status),"timestamp":1767225601000}}]}"#
        let receipt = try #require(try Self.raw.receipts(in: Self.callback(body)).first)
        #expect(receipt.event == event)
        #expect((receipt.invalidation != nil) == isDeath)
        if isDeath { #expect(receipt.invalidation?.asOf == Date(timeIntervalSince1970: 1_767_225_601)) }
    }

    @Test("A status without what is needed to place it is left out, the others stay")
    func incomplete() throws {
        let body = """
            {"statuses":[{"token":"t"},{"token":"t","requestId":5,"status":"0"},{"requestId":"r","status":0},
            {"token":"t","requestId":"r","status":"x"}]}
            """
        let receipts = try Self.raw.receipts(in: Self.callback(body))
        #expect(receipts.map(\.platformID) == ["5"])
        #expect(receipts.first?.at == Self.now)
    }
}
