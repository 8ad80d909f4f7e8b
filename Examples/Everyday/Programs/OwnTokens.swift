import ChaparAPNs
import ChaparClient

/// Device tokens from a source of your own; the chain gives it a deadline, and asks again when it fails.
struct AddressBook: TokenProvider {
    let service = TokenService.iOSAPNs
    let phones: [String: String]
    func token() async throws(PushError) -> DeviceToken? { phones["ada"].map { DeviceToken($0, service: service) } }
}

func ownTokens(_ apple: PushAccount<APNsBackend>, phones: [String: String]) async throws {
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        let ios = try client.add(apple, as: "ios")
        guard let token = await TokenProviderChain([AddressBook(phones: phones)]).token() else { return }
        print("ada:", await ios.send(PushNotification(body: "Your table is ready"), to: .token(token)).isAccepted)
    }
}
