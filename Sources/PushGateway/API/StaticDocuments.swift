internal import Crypto
internal import Foundation
internal import HTTPTypes
internal import Hummingbird

/// The two documents that are part of the program: the API's description and the dashboard.
struct StaticDocuments: Sendable {
    private let openAPI: Response
    private let dashboard: Response

    /// Prepares both.
    init(build: BuildInfo) {
        let description = String(decoding: PackageResources.openapi_json, as: UTF8.self)
            .replacing("@VERSION@", with: build.version)
        openAPI = Response(
            status: .ok,
            headers: [.contentType: "application/openapi+json;version=3.1", .cacheControl: "max-age=60"],
            body: ResponseBody(bytes: Array(description.utf8))
        )
        let page = String(decoding: PackageResources.dashboard_html, as: UTF8.self)
        dashboard = Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-cache",
                .contentSecurityPolicy: Self.policy(for: page), .xContentTypeOptions: "nosniff",
                .referrerPolicy: "no-referrer",
            ],
            body: ResponseBody(bytes: Array(page.utf8))
        )
    }

    /// The API's description.
    func describe() -> Response { openAPI }

    /// The dashboard's page.
    func page() -> Response { dashboard }

    /// Only the page's own script and style run, and they talk to this gateway alone.
    private static func policy(for page: String) -> String {
        let script = hash(of: "script", in: page)
        let style = hash(of: "style", in: page)
        return "default-src 'none'; script-src \(script); style-src \(style); connect-src 'self'; img-src data:; "
            + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    }

    private static func hash(of element: String, in page: String) -> String {
        guard let start = page.firstRange(of: "<\(element)>"), let end = page.firstRange(of: "</\(element)>"),
            start.upperBound <= end.lowerBound
        else { return "'none'" }
        let content = page[start.upperBound..<end.lowerBound]
        let digest = Data(SHA256.hash(data: Data(content.utf8))).base64EncodedString()
        return "'sha256-\(digest)'"
    }
}
