/* Stands in for the Objective-C runtime and for what the backend "coreml" asks of Foundation and Core ML. It knows
 * nothing of the product: it counts references, refuses what it does not know, and its one model computes y = max(x, 0)
 * in rows that are padded, as Core ML's may be. STANDIN_FAIL=compile|move|load|predict makes that call fail with an
 * NSError. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Object Object;
typedef struct Class Class;
struct Class {
  Class* isa;
  const char* name;
  bool meta;
};
struct Object {
  Class* isa;
  int references;
  char* text;             /* NSString, NSURL, NSError */
  long long number;       /* NSNumber; MLMultiArray: dataType; configuration: units */
  size_t count;           /* NSArray, NSDictionary */
  Object **items, **keys; /* owned */
  void* data;             /* MLMultiArray */
  bool owns_data;
};
enum { kFloat16 = 65552 };

static Class metas[32], classes[32];
static int n_classes;
static long live, sent_wrongly, compiled, loaded, predicted;
static Object* pool[65536];
static size_t pooled, pools;

/* for the tests */
void standin_counts(long out[6]) {
  out[0] = live, out[1] = (long)pools, out[2] = sent_wrongly, out[3] = compiled, out[4] = loaded, out[5] = predicted;
}

static Class* class_named(const char* name) {
  for (int i = 0; i < n_classes; ++i)
    if (!strcmp(classes[i].name, name)) return &classes[i];
  static const char* known[] = {"NSString",
                                "NSNumber",
                                "NSArray",
                                "NSDictionary",
                                "NSURL",
                                "NSError",
                                "NSFileManager",
                                "MLModel",
                                "MLMultiArray",
                                "MLFeatureValue",
                                "MLModelConfiguration",
                                "MLDictionaryFeatureProvider"};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (!strcmp(known[i], name)) {
      metas[n_classes] = (Class){NULL, known[i], true};
      classes[n_classes] = (Class){&metas[n_classes], known[i], false};
      return &classes[n_classes++];
    }
  return NULL;
}
void* objc_getClass(const char* name) { return class_named(name); }
void* object_getClass(void* object) { return object ? ((Object*)object)->isa : NULL; }
const void* sel_registerName(const char* name) { return name; }

static Object* make(const char* name) {
  Object* o = calloc(1, sizeof *o);
  o->isa = class_named(name), o->references = 1, ++live;
  return o;
}
void* objc_retain(void* object) {
  if (object) ++((Object*)object)->references;
  return object;
}
void objc_release(void* object) {
  Object* o = object;
  if (!o || --o->references > 0) return;
  if (o->references < 0) abort();
  for (size_t i = 0; i < o->count; ++i) {
    if (o->items) objc_release(o->items[i]);
    if (o->keys) objc_release(o->keys[i]);
  }
  free(o->items), free(o->keys), free(o->text);
  if (o->owns_data) free(o->data);
  free(o), --live;
}
void* objc_autoreleasePoolPush(void) {
  ++pools;
  return (void*)(uintptr_t)(pooled + 1);
}
void objc_autoreleasePoolPop(void* mark) {
  --pools;
  while (pooled > (uintptr_t)mark - 1) objc_release(pool[--pooled]);
}
static Object* later(Object* o) {
  if (!pools) ++sent_wrongly; /* would leak */
  return pool[pooled++] = o;
}
static Object* string(const char* text) {
  Object* o = make("NSString");
  o->text = strdup(text);
  return o;
}
static void* error(Object** out, const char* text) {
  if (out) *out = later(make("NSError")), (*out)->text = strdup(text);
  return NULL;
}
static bool fails(const char* what) {
  const char* f = getenv("STANDIN_FAIL");
  return f && !strcmp(f, what);
}
static Object* listed(const char* name, Object** items, Object** keys, size_t n) {
  Object* o = make(name);
  o->count = n, o->items = calloc(n + 1, sizeof *items);
  if (keys) o->keys = calloc(n + 1, sizeof *keys);
  for (size_t i = 0; i < n; ++i) {
    o->items[i] = objc_retain(items[i]);
    if (keys) o->keys[i] = objc_retain(keys[i]);
  }
  return o;
}

#define SELF Object *self, const char *sel
#define UNUSED (void)self, (void)sel
static void* string_with(SELF, const char* text) {
  UNUSED;
  return later(string(text));
}
static const char* utf8(SELF) {
  UNUSED;
  return self->text;
}
static void* description(SELF) {
  UNUSED;
  return later(string(self->text));
}
static void* number_with(SELF, long long n) {
  UNUSED;
  Object* o = make("NSNumber");
  o->number = n;
  return later(o);
}
static long long long_long(SELF) {
  UNUSED;
  return self->number;
}
static void* array_with(SELF, Object** items, unsigned long n) {
  UNUSED;
  return later(listed("NSArray", items, NULL, n));
}
static unsigned long count(SELF) {
  UNUSED;
  return self->count;
}
static void* at(SELF, unsigned long i) {
  UNUSED;
  if (i >= self->count) abort();
  return self->items[i];
}
static void* dictionary_with(SELF, Object** items, Object** keys, unsigned long n) {
  UNUSED;
  return later(listed("NSDictionary", items, keys, n));
}
static void* url_with(SELF, Object* path) {
  UNUSED;
  Object* o = make("NSURL");
  o->text = strdup(path->text);
  return later(o);
}
static void* manager(SELF) {
  UNUSED;
  static Object* one;
  if (!one) one = make("NSFileManager"), --live;
  return one;
}
static bool move(SELF, Object* from, Object* to, Object** out) {
  UNUSED;
  if (fails("move")) return error(out, "no space left") != NULL;
  return rename(from->text, to->text) == 0 || error(out, "rename failed") != NULL;
}
static void* alloc(SELF) {
  UNUSED;
  return make(((Class*)self)->name);
}
static void* init(SELF) {
  UNUSED;
  return self;
}
static void set_units(SELF, long units) {
  UNUSED;
  self->number = units;
}

static void* compile(SELF, Object* url, Object** out) {
  UNUSED;
  char path[4096];
  snprintf(path, sizeof path, "%s/Manifest.json", url->text);
  if (fails("compile") || access(path, R_OK)) return error(out, "Error reading protobuf spec. validator error");
  const char* tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/standin-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(path)) abort();
  Object* o = make("NSURL");
  o->text = strdup(path);
  strcat(path, "/compiled");
  FILE* f = fopen(path, "w");
  fputs("compiled", f), fclose(f), ++compiled;
  return later(o);
}
static void* load(SELF, Object* url, Object* configuration, Object** out) {
  UNUSED;
  char path[4096], word[16] = "";
  snprintf(path, sizeof path, "%s/compiled", url->text);
  FILE* f = fopen(path, "r");
  if (f) {
    if (!fgets(word, sizeof word, f)) word[0] = 0;
    fclose(f);
  }
  if (fails("load") || strcmp(word, "compiled") || configuration->number != 3)
    return error(out, "Failed to load the model (damaged, or other units)");
  ++loaded;
  return later(make("MLModel"));
}
static void* array_init(SELF, void* data, Object* shape, long type, Object* strides, void* block, Object** out) {
  UNUSED;
  if (type != kFloat16 || block || shape->count != strides->count) {
    objc_release(self);
    return error(out, "bad array");
  }
  self->data = data, self->number = type, self->count = 2, self->items = calloc(2, sizeof(Object*));
  self->items[0] = objc_retain(shape), self->items[1] = objc_retain(strides);
  return self;
}
static void* feature(SELF, Object* array) {
  UNUSED;
  return later(listed("MLFeatureValue", &array, NULL, 1));
}
static void* feature_array(SELF) {
  UNUSED;
  return self->items[0];
}
static void* provider_init(SELF, Object* dictionary, Object** out) {
  UNUSED, (void)out;
  self->count = 1, self->items = calloc(1, sizeof(Object*)), self->items[0] = objc_retain(dictionary);
  return self;
}
static void* value_for(SELF, Object* name) {
  UNUSED;
  Object* d = self->items[0];
  for (size_t i = 0; i < d->count; ++i)
    if (!strcmp(d->keys[i]->text, name->text)) return d->items[i];
  return NULL;
}
static void* shape_of(SELF) {
  UNUSED;
  return self->items[0];
}
static void* strides_of(SELF) {
  UNUSED;
  return self->items[1];
}
static long type_of(SELF) {
  UNUSED;
  return self->number;
}
static void* pointer(SELF) {
  UNUSED;
  return self->data;
}

static void* predict(SELF, Object* given, Object** out) {
  UNUSED;
  Object* name = later(string("x"));
  Object* value = value_for(given, NULL, name);
  if (fails("predict") || !value) return error(out, "Failed to evaluate model 0 in pipeline");
  ++predicted;
  Object *x = value->items[0], *shape = x->items[0];
  const size_t rank = shape->count;
  size_t rows = 1, width = (size_t)shape->items[rank - 1]->number, pad = (width + 31) / 32 * 32;
  for (size_t i = 0; i + 1 < rank; ++i) rows *= (size_t)shape->items[i]->number;
  Object* y = make("MLMultiArray");
  y->data = malloc(rows * pad * 2), y->owns_data = true, y->number = kFloat16;
  memset(y->data, 0x7e, rows * pad * 2); /* NaN in the padding */
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < width; ++i) {
      const uint16_t h = ((uint16_t*)x->data)[r * width + i];
      ((uint16_t*)y->data)[r * pad + i] = (h & 0x8000u) && (h & 0x7fffu) <= 0x7c00u ? 0 : h;
    }
  Object* strides[16];
  size_t stride = pad;
  for (size_t i = rank; i-- > 0;) {
    strides[i] = make("NSNumber");
    strides[i]->number = i + 1 == rank ? 1 : (long long)stride;
    if (i + 1 < rank) stride *= (size_t)shape->items[i]->number;
  }
  y->count = 2, y->items = calloc(2, sizeof(Object*));
  y->items[0] = objc_retain(shape), y->items[1] = listed("NSArray", strides, NULL, rank);
  for (size_t i = 0; i < rank; ++i) objc_release(strides[i]);
  Object *v = feature(NULL, NULL, y), *k = later(string("y"));
  objc_release(y);
  Object* results = later(make("MLDictionaryFeatureProvider"));
  Object* d = listed("NSDictionary", &v, &k, 1);
  provider_init(results, NULL, d, NULL), objc_release(d);
  return results;
}

void (*class_getMethodImplementation(void* cls, const void* selector))(void) {
  static const struct {
    const char* name;
    bool meta;
    const char* selector;
    void (*function)(void);
  } methods[] = {
#define M(name, meta, selector, f) {name, meta, selector, (void (*)(void))f}
      M("NSString", true, "stringWithUTF8String:", string_with),
      M("NSString", false, "UTF8String", utf8),
      M("NSError", false, "localizedDescription", description),
      M("NSNumber", true, "numberWithLongLong:", number_with),
      M("NSNumber", false, "longLongValue", long_long),
      M("NSArray", true, "arrayWithObjects:count:", array_with),
      M("NSArray", false, "count", count),
      M("NSArray", false, "objectAtIndex:", at),
      M("NSDictionary", true, "dictionaryWithObjects:forKeys:count:", dictionary_with),
      M("NSURL", true, "fileURLWithPath:", url_with),
      M("NSURL", false, "path", description),
      M("NSFileManager", true, "defaultManager", manager),
      M("NSFileManager", false, "moveItemAtURL:toURL:error:", move),
      M("MLModelConfiguration", true, "alloc", alloc),
      M("MLModelConfiguration", false, "init", init),
      M("MLModelConfiguration", false, "setComputeUnits:", set_units),
      M("MLModel", true, "compileModelAtURL:error:", compile),
      M("MLModel", true, "modelWithContentsOfURL:configuration:error:", load),
      M("MLModel", false, "predictionFromFeatures:error:", predict),
      M("MLMultiArray", true, "alloc", alloc),
      M("MLMultiArray", false, "initWithDataPointer:shape:dataType:strides:deallocator:error:", array_init),
      M("MLMultiArray", false, "shape", shape_of),
      M("MLMultiArray", false, "strides", strides_of),
      M("MLMultiArray", false, "dataType", type_of),
      M("MLMultiArray", false, "dataPointer", pointer),
      M("MLFeatureValue", true, "featureValueWithMultiArray:", feature),
      M("MLFeatureValue", false, "multiArrayValue", feature_array),
      M("MLDictionaryFeatureProvider", true, "alloc", alloc),
      M("MLDictionaryFeatureProvider", false, "initWithDictionary:error:", provider_init),
      M("MLDictionaryFeatureProvider", false, "featureValueForName:", value_for),
  };
  const Class* c = cls;
  for (size_t i = 0; c && i < sizeof methods / sizeof *methods; ++i)
    if (c->meta == methods[i].meta && !strcmp(c->name, methods[i].name) && !strcmp(selector, methods[i].selector))
      return methods[i].function;
  ++sent_wrongly;
  return NULL;
}
