internal import Foundation
package import HTTPTypes
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparCore

/// The header fields of a request that concern its caller.
package struct CallerFields {
    /// The host that the request was sent to.
    package var authority: String?
    package var authorization: String?
    package var origin: String?
    /// `Sec-Fetch-Site`.
    package var fetchSite: String?
    /// Whether a field shows that a proxy forwarded the request.
    package var isForwarded = false
    /// The values of `X-Forwarded-For`.
    package var forwardedFor: [String] = []

    /// Creates the fields of a request; a field that the request lacks is nil or empty.
    package init(
        authority: String? = nil,
        authorization: String? = nil,
        origin: String? = nil,
        fetchSite: String? = nil,
        isForwarded: Bool = false,
        forwardedFor: [String] = []
    ) {
        self.authority = authority
        self.authorization = authorization
        self.origin = origin
        self.fetchSite = fetchSite
        self.isForwarded = isForwarded
        self.forwardedFor = forwardedFor
    }
}

extension CallerFields {
    /// Reads the fields of a request.
    package init(_ head: HTTPRequest) {
        authority = head.authority
        authorization = head.headerFields[.authorization]
        origin = head.headerFields[.origin]
        fetchSite = head.headerFields[.secFetchSite]
        isForwarded = head.headerFields.contains { Self.isOfProxy($0.name.rawName) }
        forwardedFor = head.headerFields[values: .xForwardedFor]
    }

    /// Reads `Authorization: Basic` as the API key that is its password, or the user's name where there is no password.
    ///
    /// A browser adds such credentials to requests of any page, so requests of other sites' pages are refused. Any
    /// other value of the field is not changed.
    package mutating func takeBasicCredentials() throws(Problem) {
        guard let field = authorization, field.prefix(6).lowercased() == "basic ",
            let data = Data(base64Encoded: String(field.dropFirst(6).drop { $0 == " " })),
            let text = String(validating: data, as: UTF8.self)
        else { return }
        guard origin == nil, fetchSite == nil || fetchSite == "none" else { throw .crossSite }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let key = parts.count > 1 && !parts[1].isEmpty ? parts[1] : parts[0]
        authorization = "Bearer \(key)"
    }

    /// Whether proxies write a field of this name.
    package static func isOfProxy(_ name: String) -> Bool {
        switch name.utf8.count {
        case 3: name.isField("via")
        case 9: name.isField("forwarded") || name.isField("x-real-ip")
        case 11...: name.hasFieldPrefix("x-forwarded")
        default: false
        }
    }
}

/// The refusal of requests of web pages from other origins to a gateway without keys, which trusts every process that
/// can reach its loopback address.
struct OriginGuard: Sendable {
    private let rule: LocalOrigin

    /// Makes a guard for a gateway that listens on `host`.
    init(host: String, isEncrypted: Bool) { rule = LocalOrigin(host: host, isEncrypted: isEncrypted) }

    /// Admits a request, or throws the reason why not.
    func admit(_ fields: CallerFields) throws(Problem) {
        guard !fields.isForwarded else { throw .throughProxy }
        switch rule.refusal(host: fields.authority, origin: fields.origin, fetchSite: fields.fetchSite) {
        case nil: return
        case .crossSite?: throw .crossSite
        case .foreignHost?:
            throw .foreignHost
        }
    }
}
