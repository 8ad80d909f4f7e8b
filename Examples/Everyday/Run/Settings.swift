import ChaparClient
import Hummingbird

/// What Apple has given you: the text of the key's file, the ids of key and team, the app's bundle id.
struct AppleSettings {
    var key: String
    var keyID: String
    var teamID: String
    var topic: String
    /// Nothing, unless you send through a relay, or to a simulator as here.
    var common = CommonBackendOptions()
}

/// What Google has given you: the text of the service account's key file.
struct GoogleSettings {
    var serviceAccount: String
    /// Nothing, unless you send through a relay, or to a simulator as here.
    var common = CommonBackendOptions(timeout: .seconds(15))
}

/// What Huawei has given you: the app's id and secret; and the addresses of its token endpoint and of its send API.
struct HuaweiSettings {
    var id: String
    var secret: Secret
    var tokenURL: HTTPBaseURL
    var host: HTTPEndpoint
    /// Nothing, unless you send through a relay, or to a simulator as here.
    var common = CommonBackendOptions()
}

/// Where your server listens, and the path of its database.
struct ServerSettings {
    var web: ApplicationConfiguration
    var database: String
}
