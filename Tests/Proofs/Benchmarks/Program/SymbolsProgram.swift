/// The C++ program to symbolize: templates, lambdas, virtual calls, exceptions, and much of the C++ library.
let symbolsProgram = #"""
  #include <algorithm>
  #include <map>
  #include <memory>
  #include <regex>
  #include <sstream>
  #include <string>
  #include <unordered_map>
  #include <vector>
  #include <cstdio>
  #include <functional>
  namespace shop {
  struct Item { std::string name; int price; };
  template <typename T> class Index {
   public:
    void add(const std::string& key, T value) { map_[key].push_back(std::move(value)); }
    std::vector<T> find(const std::string& key) const { auto f = map_.find(key); return f == map_.end() ? std::vector<T>{} : f->second; }
    template <typename F> void each(F f) const { for (auto& p : map_) for (auto& v : p.second) f(p.first, v); }
   private:
    std::unordered_map<std::string, std::vector<T>> map_;
  };
  static int total(const std::vector<Item>& items) { int t = 0; for (auto& i : items) t += i.price; return t; }
  std::string report(const Index<Item>& index) {
    std::ostringstream out; std::map<std::string, int> sums;
    index.each([&](const std::string& k, const Item& i) { sums[k] += i.price; });
    for (auto& [k, v] : sums) out << k << "=" << v << "\n";
    return out.str();
  }
  struct Base { virtual ~Base() {} virtual int run(int) = 0; };
  struct Fast : Base { int run(int x) override { std::vector<int> v(x); std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; }); return v.size() ? v[0] : 0; } };
  struct Slow : Base { int run(int x) override { std::regex r("a+b*[c-f]{2,3}"); std::string s(x, 'a'); return std::regex_search(s, r); } };
  }
  int main(int argc, char**) {
    shop::Index<shop::Item> index; for (int i = 0; i < 100; i++) index.add("k" + std::to_string(i % 7), {"n", i});
    std::unique_ptr<shop::Base> b(argc > 1 ? (shop::Base*)new shop::Fast : new shop::Slow);
    std::function<int(int)> f = [&](int x) { try { return b->run(x); } catch (const std::exception& e) { return 0; } };
    printf("%s %d %d\n", shop::report(index).c_str(), f(100), shop::total(index.find("k1")));
  }
  """#
