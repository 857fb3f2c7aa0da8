#[gort::main]
async fn main() {
    std::future::ready(()).await
}
