public import ChaparCore

/// Takes messages of v3 back from devices.
///
/// Huawei drops a message that has not reached a device, and removes one that the device shows and its user has not
/// tapped. It finds the message by `notifyId`, so only messages that carry one can be taken back. Source: Huawei, "Push
/// Kit, REST API, message revocation" (*push-msg-revoke*), read 2026-11; what of it is used stands in
/// docs/platforms/HMSv3.md.
public struct HMSRevocation: MessageRevoker {
    /// The most tokens in one call.
    public static let batchLimit = 1000

    let clientID: String
    let client: HMSClient

    /// Those of HarmonyOS 5 and later.
    public var services: [TokenService] { [.harmonyHuawei] }
    /// ``batchLimit``.
    public var revocationLimit: Int { Self.batchLimit }

    /// Asks Huawei to take a message back; returns false when none of the tokens belongs to the app any more.
    public func revoke(_ trackingID: String, from tokens: [DeviceToken]) async throws(PushError) -> Bool {
        guard let id = HMSTrackingID(trackingID) else {
            throw PushError(.invalidRequest, "\"\(trackingID.prefix(80))\" is no id of a v3 message", reason: "bad_id")
        }
        guard tokens.allSatisfy({ $0.service == .harmonyHuawei }) else { throw Self.notHarmony }
        guard (1...Self.batchLimit).contains(tokens.count) else {
            let limit = "Huawei takes a message back from 1 to \(Self.batchLimit) devices in one call"
            throw PushError(.invalidRequest, limit, reason: "80300010")
        }
        let body: JSONValue = [
            "notifyId": .integer(id.notifyID), "token": .array(tokens.map { .string($0.value) }),
        ]
        let (answer, _) = try await client.call("/v1/\(clientID)/messages:revoke", body, pushType: Int(id.pushType))
        switch answer.code {
        case "80000000": return true
        case "80300007": return false
        default: throw answer.code.flatMap(HMSRevocationCodes.error) ?? HMSRejections.error(answer)
        }
    }

    private static let notHarmony = PushError(
        .unsupported,
        "Huawei takes messages back from HarmonyOS 5 and later: tokens of harmony-huawei only",
        reason: "not_harmony"
    )
}
