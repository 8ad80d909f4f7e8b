internal import Crypto
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOEmbedded
internal import NIOHTTP1
internal import NIOHTTPCompression
internal import ChaparAPI

/// The operator's page: one document made of the files in the folder `Dashboard`.
///
/// It is joined, hashed and compressed once, when it is first asked for.
struct DashboardPage: Sendable {
    /// The page of this program.
    static let shared = DashboardPage()

    /// The document.
    let text: String
    /// Its Content-Security-Policy: only its own script and style run, they may connect to this gateway only, and
    /// no text becomes markup.
    let policy: String
    /// The document, compressed with gzip; nil where that failed.
    let compressed: [UInt8]?
    /// The hash of the document, which tells a browser that its copy is the same.
    let tag: String

    init() {
        let style = String(decoding: EmbeddedDocuments.style, as: UTF8.self)
        let script = Self.script
        let texts = EmbeddedDocuments.texts.map { "\"\($0)\":\(String(decoding: $1, as: UTF8.self))" }
            .joined(separator: ",")
        let data = "<script type=\"application/json\" id=\"texts\">"
        text = String(decoding: EmbeddedDocuments.markup, as: UTF8.self)
            .replacing("<style></style>", with: "<style>\(style)</style>")
            .replacing("\(data)</script>", with: "\(data){\(texts)}</script>")
            .replacing("<script></script>", with: "<script>\(script)</script>")
        policy =
            "default-src 'none'; script-src \(Self.source(script)); style-src \(Self.source(style)); "
            + "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            + "require-trusted-types-for 'script'; trusted-types 'none'"
        let bytes = Array(text.utf8)
        compressed = Self.gzip(bytes)
        tag = Data(SHA256.hash(data: bytes).prefix(16)).base64EncodedString()
    }

    /// The scripts as one, in their order, without what only readers of the sources need: indentation and comments that
    /// have lines of their own.
    static var script: String {
        var joined = Array("\"use strict\";\n".utf8)
        for line in EmbeddedDocuments.scripts.split(separator: UInt8(ascii: "\n")) {
            let code = line.drop { $0 == UInt8(ascii: " ") }
            if code.isEmpty || comments.contains(where: { code.starts(with: $0) }) { continue }
            joined += code
            joined.append(UInt8(ascii: "\n"))
        }
        return String(decoding: joined, as: UTF8.self)
    }

    /// The beginnings of lines that are comments.
    ///
    /// No line of code begins so, and no text has several lines.
    private static let comments = ["//", "/**", "* ", "*/"].map { Array($0.utf8) }

    /// Returns the policy's source that allows elements with exactly this content.
    private static func source(_ content: String) -> String {
        "'sha256-\(Data(SHA256.hash(data: Data(content.utf8))).base64EncodedString())'"
    }

    /// Answers with the page, compressed where the browser takes that; with 304 where it has this very page.
    func answer(_ request: HTTPRequest) -> Response {
        let fields = request.headerFields
        let isCompressed = compressed != nil && fields[values: .acceptEncoding].contains { Self.allowsGzip($0) }
        let own = isCompressed ? "\"\(tag)-gzip\"" : "\"\(tag)\""
        var headers: HTTPFields = [
            .eTag: own, .vary: "Accept-Encoding", .cacheControl: "no-cache",
            .contentSecurityPolicy: policy, .xContentTypeOptions: "nosniff", .frameOptions: "DENY",
            .referrerPolicy: "no-referrer", .crossOriginOpenerPolicy: "same-origin",
        ]
        if fields[values: .ifNoneMatch].contains(where: { $0.contains(own) || $0 == "*" }) {
            return Response(status: .notModified, headers: headers)
        }
        headers[.contentType] = "text/html; charset=utf-8"
        guard isCompressed, let compressed else {
            return Response(status: .ok, headers: headers, body: ResponseBody(bytes: Array(text.utf8)))
        }
        headers[.contentEncoding] = "gzip"
        return Response(status: .ok, headers: headers, body: ResponseBody(bytes: compressed))
    }

    /// Whether a value of `Accept-Encoding` names gzip, and not with the weight 0.
    static func allowsGzip(_ value: String) -> Bool {
        value.lowercased().split(separator: ",").contains { coding in
            let parts = coding.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
            guard parts.first == "gzip" || parts.first == "x-gzip" else { return false }
            return !parts.dropFirst().contains { part in
                part.hasPrefix("q=") && Double(part.dropFirst(2)) == 0
            }
        }
    }

    /// Compresses bytes by the handler that NIO's servers compress their answers with.
    static func gzip(_ bytes: [UInt8]) -> [UInt8]? {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish() }
        do {
            try channel.pipeline.syncOperations.addHandler(
                HTTPResponseCompressor(initialByteBufferCapacity: bytes.count)
            )
            let asked = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: ["Accept-Encoding": "gzip"])
            try channel.writeInbound(HTTPServerRequestPart.head(asked))
            let head = HTTPResponseHead(version: .http1_1, status: .ok)
            channel.write(HTTPServerResponsePart.head(head), promise: nil)
            channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: bytes))), promise: nil)
            // The end makes the handler compress all of it at once.
            try channel.writeOutbound(HTTPServerResponsePart.end(nil))
            return try written(by: channel)
        } catch { return nil }
    }

    /// Collects the body that the channel has written; nil where it was not compressed.
    private static func written(by channel: EmbeddedChannel) throws -> [UInt8]? {
        var body: [UInt8] = []
        var isCompressed = false
        while let part = try channel.readOutbound(as: HTTPServerResponsePart.self) {
            switch part {
            case .head(let head): isCompressed = head.headers.first(name: "Content-Encoding") == "gzip"
            case .body(.byteBuffer(let buffer)): body += buffer.readableBytesView
            case .body, .end: break
            }
        }
        return isCompressed ? body : nil
    }
}
