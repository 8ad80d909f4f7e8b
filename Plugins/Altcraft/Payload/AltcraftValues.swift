public import ChaparCore

/// A push token with the service that gave it, as Altcraft's SDK names them.
public struct TokenData: Sendable, Hashable, Codable {
    /// The service, such as `ios-apns`.
    public var provider: String
    /// The token.
    public var token: String

    /// Makes a pair.
    public init(provider: String, token: String) {
        self.provider = provider
        self.token = token
    }
}

/// The app's identity in a subscription, in three fields of their own.
public struct AppInfo: Sendable, Hashable, Codable {
    /// `_app_id`: the app, as Firebase numbers it.
    public var appID: String
    /// `_app_iid`: its installation.
    public var appIID: String
    /// `_app_ver`: its version.
    public var appVer: String

    /// Makes the three.
    public init(appID: String, appIID: String, appVer: String) {
        self.appID = appID
        self.appIID = appIID
        self.appVer = appVer
    }

    var fields: JSONObject {
        ["_app_id": .string(appID), "_app_iid": .string(appIID), "_app_ver": .string(appVer)]
    }
}

/// The token services that Altcraft knows.
///
/// Options and the functions of the SDK turn names into services with it. A name that it does not know is a fault with
/// the SDK's code, never a service of its own.
public enum AltcraftProviders {
    /// Tokens that RuStore gives on Android.
    public static let androidRuStore = TokenService.androidRuStore

    /// Every service, in the order in which they are preferred unless configured otherwise: those of the seed first.
    public static let defaultOrder: [TokenService] = [
        .iOSAPNs, .iOSFirebase, .iOSHuawei, .androidFirebase, .androidHuawei, androidRuStore,
    ]

    /// Reads a list of names in any letter case.
    ///
    /// An empty list is the default order.
    ///
    /// - Throws: Code 473 when a name is unknown or stands twice.
    package static func order(_ names: [String]) throws(AltcraftFault) -> [TokenService] {
        guard !names.isEmpty else { return defaultOrder }
        var order: [TokenService] = []
        for name in names {
            let service = try service(name)
            guard !order.contains(service) else {
                throw AltcraftFault(
                    473,
                    "the provider \(service) stands twice in the list",
                    ["provider": .string(name)]
                )
            }
            order.append(service)
        }
        return order
    }

    /// Returns the service with a name, in any letter case.
    ///
    /// - Throws: Code 473 when there is none.
    package static func service(_ name: String) throws(AltcraftFault) -> TokenService {
        let service = TokenService(rawValue: name)
        guard defaultOrder.contains(service) else {
            let known = defaultOrder.map(\.rawValue).joined(separator: ", ")
            let shown = String(name.prefix(40))
            throw AltcraftFault(473, "unknown provider \"\(shown)\"; known: \(known)", ["provider": .string(shown)])
        }
        return service
    }
}

/// A fault with one of Altcraft's numbers, found before a request was sent.
package struct AltcraftFault: Error, Hashable, CustomStringConvertible {
    /// The number, from the table of the seed's time.
    package let code: Int
    /// A sentence for people; never a token or credential.
    package let message: String
    package let value: JSONObject
    /// Whether another attempt may succeed later.
    let isPassing: Bool

    init(_ code: Int, _ message: String, _ value: JSONObject = JSONObject(), isPassing: Bool = false) {
        self.code = code
        self.message = message
        self.value = value
        self.isPassing = isPassing
    }

    package var description: String { "\(code): \(message)" }

    /// The error for a gateway; the number is its reason.
    var pushError: PushError { PushError(isPassing ? .unavailable : .invalidRequest, message, reason: "\(code)") }
}

extension JSONObject {
    /// Returns an object of the members that have a value.
    package static func present(_ members: [(String, JSONValue?)]) -> JSONObject {
        var object = JSONObject()
        for (name, value) in members { object[name] = value }
        return object
    }
}
