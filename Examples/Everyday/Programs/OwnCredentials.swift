import ChaparClient
import ChaparHMS
import ChaparOAuth

/// Access tokens that you get yourself: any `AuthStrategy` fits, here OAuth 2 for a client's id and secret.
func ownCredentials(_ my: HuaweiSettings, phone: String) async throws {
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        let login = try OAuth2ClientCredentials(
            tokenURL: my.tokenURL,
            id: my.id,
            secret: my.secret,
            covers: { $0 == my.host },
            common: my.common,
            http: client.http
        )
        let account = PushAccount.hms(credential: .strategy(login), api: .v1(appID: my.id), common: my.common)
        let huawei = try client.add(account, as: "huawei")
        print(await huawei.send(PushNotification(title: "Order 42"), to: .token(phone, service: .androidHuawei)))
    }
}
