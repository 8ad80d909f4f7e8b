public import Foundation
internal import Crypto
public import ChaparSimulator
internal import SwiftASN1
internal import X509

/// The permissions of a provider's client certificate: its topics and environments.
public struct APNsProviderCertificate: Sendable, Hashable {
    /// The topics it may push to.
    public let topics: [String]
    /// The environments it is valid for: both for a universal certificate.
    public let environments: Set<APNsEnvironment>

    /// Makes the description of a certificate.
    public init(topics: [String], environments: Set<APNsEnvironment> = [.development, .production]) {
        self.topics = topics
        self.environments = environments
    }

    private static let userID: ASN1ObjectIdentifier = [0, 9, 2342, 19_200_300, 100, 1, 1]
    private static let development: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 1]
    private static let production: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 2]
    private static let voip: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 4]
    private static let topicList: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 6]
    private static let null: ArraySlice<UInt8> = [5, 0]

    /// Reads the description from a certificate; nil when it is no provider certificate.
    init?(_ certificate: Certificate) {
        guard let list = certificate.extensions[oid: Self.topicList], let topics = Self.topics(in: list.value) else {
            return nil
        }
        var environments: Set<APNsEnvironment> = []
        if certificate.extensions[oid: Self.development] != nil { environments.insert(.development) }
        if certificate.extensions[oid: Self.production] != nil { environments.insert(.production) }
        self.init(topics: topics, environments: environments)
    }

    var subject: DistinguishedName {
        get throws {
            let topic = topics.first ?? ""
            let attributes = [
                RelativeDistinguishedName.Attribute(type: Self.userID, utf8String: topic),
                .init(type: .RDNAttributeType.commonName, utf8String: "Apple Push Services: \(topic)"),
            ]
            return try DistinguishedName(attributes)
        }
    }

    var extensions: [Certificate.Extension] {
        var list = [Certificate.Extension(oid: Self.topicList, critical: false, value: encodedTopics)]
        if environments.contains(.development) {
            list.append(.init(oid: Self.development, critical: false, value: Self.null))
        }
        if environments.contains(.production) {
            list.append(.init(oid: Self.production, critical: false, value: Self.null))
        }
        if topics.contains(where: { $0.hasSuffix(".voip") }) {
            list.append(.init(oid: Self.voip, critical: false, value: Self.null))
        }
        return list
    }

    /// A sequence in which each topic is followed by a sequence with the name of its kind, as Apple's certificates have
    /// it.
    private var encodedTopics: ArraySlice<UInt8> {
        var content: [UInt8] = []
        for topic in topics {
            let kind = ["voip", "complication"].first { topic.hasSuffix(".\($0)") } ?? "app"
            content += Self.encode(tag: 12, Array(topic.utf8))
            content += Self.encode(tag: 48, Self.encode(tag: 12, Array(kind.utf8)))
        }
        return Self.encode(tag: 48, content)[...]
    }

    private static func encode(tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let length: [UInt8] =
            switch content.count {
            case ..<128: [UInt8(clamping: content.count)]
            case ..<256: [0x81, UInt8(clamping: content.count)]
            default:
                [
                    0x82, UInt8(truncatingIfNeeded: content.count >> 8 & 255),
                    UInt8(truncatingIfNeeded: content.count & 255),
                ]
            }
        return [tag] + length + content
    }

    private static func topics(in value: ArraySlice<UInt8>) -> [String]? {
        guard let root = try? DER.parse(value), case .constructed(let nodes) = root.content else { return nil }
        return nodes.compactMap { node in
            guard case .primitive(let bytes) = node.content else { return nil }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

extension SandboxCertificateAuthority {
    /// Issues a client certificate like those that Apple issues to providers.
    ///
    /// The topics stand in extension 1.2.840.113635.100.6.3.6; 6.3.1 and 6.3.2 mark the environments, 6.3.4 marks a
    /// certificate with a VoIP topic. The subject's user id is the first topic.
    public func providerIdentity(_ certificate: APNsProviderCertificate, now: Date = Date()) throws -> Identity {
        let leaf = P256.Signing.PrivateKey()
        return try issue(
            leaf,
            subject: try certificate.subject,
            from: now.addingTimeInterval(-86_400),
            until: now.addingTimeInterval(365 * 86_400),
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.clientAuth])
                for appleExtension in certificate.extensions { appleExtension }
            }
        )
    }
}
